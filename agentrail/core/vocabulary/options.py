"""Numbers and choices with which a session runs, each with its default; and fallback models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.personal import Kept
from agentrail.values.value import Authored, Value


class Options(Authored, kw_only=True):
    """Options of a session: limits, timeouts and choices that its spec may set. Fixed bounds stand in their modules."""

    max_rounds: int = 100
    """How many rounds (requests to the model) one turn may take; in the last one, the model may call no tools."""
    max_turn_seconds: float | None = None
    """Seconds until a turn is aborted, not counting the time it waits for a person; `None`: no limit."""
    max_prompt_queue: int = 100
    """How many prompts may wait for the open turn to end; a further one is refused."""
    max_steering_queue: int = 3
    """How many steering texts may wait for the next request; a further one is refused."""
    max_interventions: int = 5
    """How often plugins may prolong one turn at `after_response` or `before_finish`; further texts are dropped."""
    on_prompt_while_held: Kept[str] = "supersede"
    """What a new prompt does while calls wait for approval: `supersede` them, or `queue` after them."""
    on_repeat_unknown: Kept[str] = "hold"
    """What happens to an `unsafe` call equal to one that was interrupted: `hold` it for a person, or `allow` it."""
    stall_timeout: float = 30.0
    """Seconds without a chunk until a stream counts as stalled."""
    stall_limit: int = 2
    """After how many stalls a request is cancelled; that counts as a transient error."""
    max_retries: int = 5
    """How often a request is tried again with one model after transient errors; then the turn is aborted."""
    retry_base: float = 2.0
    """Seconds before the first retry; doubled for each further one; each wait is shortened by up to half, at random."""
    fallback_after: int = 2
    """After how many failed attempts with one model the next fallback model is asked; the last gets all retries."""
    inline_tags: bool = False
    """Whether `<status>` and `<title>` tags are removed from the model's text and reported as events."""
    tool_max_retries: int = 2
    """How often a call of a `pure` or `idempotent` tool that raised is run again, unless a plugin skips that."""
    answer_max_retries: int = 2
    """How often a turn's answer that does not fit `returns` goes back to the model; then the turn is aborted."""
    max_parallel_tools: int = 8
    """How many calls of a response may run at once; the others wait."""
    repeat_pattern: int = 3
    """From how many equal calls in a row each gets a warning for the model."""
    file_loop_warn: int = 5
    """From how many calls about the same file or subject in one turn each gets a warning for the model."""
    file_loop_abort: int = 8
    """At how many calls about the same file or subject in one turn the turn is aborted."""
    context_window: int | None = None
    """Tokens the model can read; `None`: as the table of models says, and 32,000 for a model that it does not have."""
    compact_at: float = 0.8
    """How full the context may be before it is compacted: a share of the window, or more than 1: tokens."""
    compact_to: float = 0.5
    """How full a compaction leaves the context, if it can: a share of the window, or more than 1: tokens."""
    max_agents: int = 8
    """How many sub-agents may run at once, their own sub-agents included; a further one is refused."""
    max_agent_depth: int = 3
    """How deep sub-agents may be nested; 0: none may be started."""
    max_agent_seconds: float = 600.0
    """Seconds that one sub-agent may take, not counting the time it waits for a person."""
    event_buffer_size: int = 256
    """How many deltas and other ephemeral events of the open turn are kept for late subscribers: the newest."""
    hibernate_after: float | None = None
    """Idle seconds after which a session frees its memory until its next message; `None`: never."""
    shutdown: float = 5.0
    """Seconds the session may take to stop before it is cancelled."""


class Spare(Value):
    """A fallback model, used when the models before it in the list fail."""

    model: Kept[str]
    """Name of the model."""
    options: Kept[JsonObject] = EMPTY
    """Options for the model's provider."""


CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "on_prompt_while_held": ("supersede", "queue"),
    "on_repeat_unknown": ("hold", "allow"),
}
"""Allowed values of the options that take one of a few words."""

TIMES: Final = frozenset(
    {
        "hibernate_after",
        "max_agent_seconds",
        "max_turn_seconds",
        "retry_base",
        "shutdown",
        "stall_timeout",
    }
)
"""The fields of `Options` that are times in seconds; a time longer than ten years is cut to ten years."""
