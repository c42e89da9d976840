"""What the machine remembers of the last request: what it showed, what has changed since, how many tokens it took."""

from __future__ import annotations

from agentrail.values.messages import Rearranged
from agentrail.values.value import Value


class Measured(Value):
    """Tokens and characters of the context after a response."""

    tokens: int
    """Tokens that the model has read and written, as the provider says."""
    size: int
    """Characters of the same context: system prompt, sections, tools and history, the response included."""


class Altered(Value):
    """A part of the prompt before its end that has changed since the last request; it may yet change back."""

    kind: str
    """`tool`, `skills`, `memory` or `messages`."""
    name: str
    """Name of the tool or section; for messages, what changed them."""
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
