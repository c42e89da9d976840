"""The running request and compaction, and what the machine remembers of the last request.

That is what it showed, what has changed since, and how many tokens it took.
"""

from __future__ import annotations

from agentrail.values.messages import Rearranged
from agentrail.values.value import Value


class Request(Value):
    """The running request to the model."""

    request_id: str
    """Id of the request."""
    stalls: int = 0
    """How many times the request has stalled."""
    messages: Rearranged | None = None
    """What the model sees, as ranges of the history when the request was sent; `None` if it is all of the history."""
    layers: tuple[str, ...] | None = None
    """Names of the sections of the system prompt that the model gets, in order; `None` if it gets all."""


class Compaction(Value):
    """A compaction that runs or is about to."""

    compaction_id: str
    """Id of the compaction."""
    reason: str
    """Why the context is compacted."""
    running: bool = False
    """Whether the compaction has started; before that, plugins are asked."""
    forced: bool = False
    """Whether a failure of the compaction aborts the turn, because the context is too long for the model."""
    tokens: int = 0
    """About how many tokens the context takes."""
    by: str = ""
    """What caused it: `compact_at`, `overflow`, `caller`, or the name of a tool; or the key of a plugin.

    The plugin is the one that replaced the messages to compact last, at `before_compact`.
    """


class Measured(Value):
    """Tokens and characters of the context after a response."""

    tokens: int
    """Tokens that the model has read and written, as the provider says."""
    size: int
    """Characters of the same context: system prompt, sections, tools and history, the response included."""


class Altered(Value):
    """A part of the prompt before its end that has changed since the last request; it may yet change back."""

    kind: str
    """One of `prompt_prefix.KINDS`; `tool_choice` if the last request forbade calls."""
    name: str
    """Name of the tool or section; for messages or `tool_choice`, what changed them; for the others, the kind again."""
    by: str
    """Key of the plugin, or name of the source of tools, that changed it last; empty if a caller or the session did."""
    was: str = ""
    """Mark of the part in the last request; two parts are alike if their marks are. Empty if it was not there."""
    kept: int = 0
    """Characters of the parts of its kind that stood before it in the last request."""


class Shown(Value):
    """The messages of the last request, if plugins had replaced them."""

    messages: Rearranged
    """The messages, as ranges of the history."""
    by: str
    """Key of the plugin that replaced them last."""
