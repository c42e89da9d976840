"""The numbers and choices of a session, as data: one field each, with its default."""

from __future__ import annotations

from agentrail.values.value import Authored, named_value


@named_value
class Options(Authored):
    """How a session behaves; every figure of the design is here and nowhere else."""

    max_turns: int = 100
    """Rounds (requests to the model) that one turn may take."""
    max_turn_seconds: float | None = None
    """Seconds one turn may take, without the time it rests for a person; `None`: no limit."""
    max_prompt_queue: int = 100
    """Prompts that may wait for the open turn to end."""
    max_steering_queue: int = 3
    """Steering texts that may wait for the next request."""
    max_interventions: int = 5
    """How often `after_response` and `before_finish` may prolong one turn."""
    on_prompt_while_held: str = "supersede"
    """What a prompt does to held calls: `supersede` them, or `queue` behind them."""
    on_repeat_unknown: str = "hold"
    """What becomes of an `unsafe` call like one that was stopped half-way: `hold` it for a person, or `allow` it."""
    stall_timeout: float = 30.0
    """Seconds without a chunk until a stream counts as stalled."""
    stall_limit: int = 2
    """Stalls after which the request is cancelled and tried again."""
    max_retries: int = 5
    """How often a request is tried again after transient errors."""
    retry_base: float = 2.0
    """Seconds of the first back-off; each further one doubles."""
    retry_cap: float = 60.0
    """Seconds that a back-off never exceeds, unless the provider asks for more."""
    retry_after_cap: float = 600.0
    """Seconds that are waited at most because a provider asks for it; longer, and the next of the chain is asked."""
    fallback_after: int = 2
    """Attempts that fail with one model before the next of the chain is asked; the last one has all its retries."""
    inline_tags: bool = False
    """Whether `<status>` and `<title>` are cut out of what the model writes and reported as events."""
    tool_max_retries: int = 2
    """How often a `pure` or `idempotent` tool that raised is run again."""
    max_calls_per_response: int = 64
    """Calls that one response may make, 512 at most; each one more gets an error result that says so."""
    max_parallel_tools: int = 8
    """Calls that may run at once."""
    max_argument_chars: int = 1_000_000
    """Characters of text in the arguments of one call; a call with more gets an error result."""
    max_argument_items: int = 10_000
    """Keys and items of lists in the arguments of one call; a call with more gets an error result."""
    tool_grace: float = 0.25
    """Seconds a cancelled call may take to end before it is reported as abandoned."""
    repeat_pattern: int = 3
    """Equal calls in a row that count as a loop."""
    file_loop_warn: int = 5
    """Calls on one subject in a turn that are remarked on."""
    file_loop_abort: int = 8
    """Calls on one subject in a turn that abort it."""
    context_window: int | None = None
    """Tokens the model can read; `None`: compaction only when the provider says so, or when asked."""
    compact_at: float = 0.8
    """Part of the window that may be full before the context is compacted."""
    compact_to: float = 0.5
    """Part of the window, or of the context, that compaction keeps."""
    max_agents: int = 8
    """Sub-agents that may run at once, with all that are under them."""
    max_agent_depth: int = 3
    """How deep sub-agents may be nested; 0: none may be started."""
    max_agent_seconds: float = 600.0
    """Seconds that one sub-agent may take, without the time it waits for a person."""
    event_buffer_size: int = 256
    """Deltas of the open turn kept for subscribers that come late."""
    hibernate_after: float | None = None
    """Seconds without anything to do after which the session gives its memory back until the next message."""
    shutdown: float = 5.0
    """Seconds the session may take to stop before it is cancelled."""
