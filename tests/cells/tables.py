"""The tables of the design in short form; `test_registry.py` checks that each entry has a registered test."""

from __future__ import annotations

from typing import Final

STATES: Final = ("idle", "resting", "running", "streaming", "executing_tools")
"""The columns of "What each call does in each state"; `resting` is idle with an open turn and held calls."""

CALLS: Final = (
    "prompt",
    "steer",
    "abort",
    "approve",
    "reject",
    "respond",
    "switch_model",
    "attach_tools",
    "detach_tools",
    "replace_tools",
    "update_plugin",
    "attach_plugin",
    "detach_plugin",
    "compact",
    "withdraw",
    "label",
    "suspend",
    "resume",
    "trace",
    "stop",
)
"""The rows whose calls reach the machine."""

ON_THE_HANDLE: Final = {
    "fork": "reads the records, and begins another session: tests/core, tests/runtime",
    "status": "reads the last committed state: tests/runtime",
    "messages": "reads the last committed state: tests/runtime",
    "inspect": "reads the last committed state: tests/runtime",
    "subscribe": "reads the event log: tests/runtime",
    "monitor": "hears from the supervisor: tests/runtime",
    "ask": "is `prompt`, and waits for the end of its turn: tests/runtime",
    "queued": "reads the last committed state: tests/runtime",
}
"""The rows whose calls do not reach the machine, and where they are tested."""

OPENS: Final = frozenset({"SessionOpened", "SessionBranched"})
"""The inputs that open a new session: it takes only these, and other sessions do not take them."""

CRASHES: Final = frozenset({"ActorRestarted", "CrashedTooOften"})
"""Inputs from the supervisor about crashes, to a session that lives on."""

RETURNS: Final = frozenset({"SessionReturned", "SessionWoke"})
"""The inputs with which a session comes back from its records."""

FAILURES: Final = (
    "stall: reported",
    "stall: at the limit the request is cancelled and retried",
    "transient error: retried after a back-off",
    "transient error: the back-off doubles up to its cap",
    "transient error: Retry-After is obeyed",
    "transient error: jitter from the random number of the input",
    "transient error: given up after max_retries",
    "no connection: tried again for 5 s, if the turn has reached nothing yet",
    "transient error: an abort ends the back-off",
    "transient error: steering is merged before the next attempt",
    "transient error: partial text is dropped and subscribers are told",
    "permanent error: the turn is aborted and the session lives on",
    "permanent error: partial text is kept",
    "limit of a plugin: the turn is aborted as the plugin would, with no attempt and no fallback",
    "overflow: one forced compaction, the request again",
    "overflow: a second one aborts the turn",
    "overflow: a compaction that changed nothing aborts the turn",
    "tool raises: pure and idempotent ones are retried",
    "tool raises: others are not",
    "tool raises: on_tool_error before each retry only, after_tool sees the final error",
    "unknown tool: an error result that names the tools",
    "detached tool: calls in flight finish",
    "detached tool: a held call cannot be approved",
    "redefined tool: a held call cannot be approved",
    "arguments do not fit: an error result, the tool does not run",
    "loop: repeat_pattern",
    "loop: file_loop_warn",
    "loop: file_loop_abort",
    "max_rounds: the last request forbids tools",
    "max_rounds: calls that come anyway get error results",
    "max_turn_seconds: the turn is aborted",
    "max_turn_seconds: a rest does not count",
    "odd response: duplicate or empty call ids",
    "odd response: stop reason tool calls but none there",
    "odd response: text and calls",
    "odd response: length with calls",
    "odd response: nothing at all is retried once",
    "odd response: nothing at all, twice",
    "odd response: refusal",
    "a plugin raises: reported, the pipeline goes on",
    "a plugin raises: a critical one aborts",
    "a plugin raises: a critical one blocks at before_tool",
)
"""The rows of "When things go wrong", one line per sentence."""

FAILURES_ELSEWHERE: Final = {"the session itself crashes": "tests/runtime: the supervisor restarts it"}

HOOKS: Final = (
    "session_start",
    "session_end",
    "after_turn",
    "before_prompt",
    "before_request",
    "after_response",
    "before_tool",
    "on_tool_error",
    "after_tool",
    "after_tool_batch",
    "before_finish",
    "before_compact",
    "before_steering",
    "before_plugin_opts_update",
)

ACTIONS: Final = (
    "continue",
    "intervene",
    "abort",
    "skip",
    "block_tool",
    "replace_tool_args",
    "emit",
    "switch_model",
    "replace_prompt",
    "replace_response",
    "replace_messages",
    "replace_tool_result",
    "hold_tool",
    "set_section",
    "ask",
    "add_context",
)

_SEED: Final = """
session_start              ●·●···●·
session_end                ●·····●·
after_turn                 ●·····●·
before_prompt              ●●●●··●·
before_request             ●●●●··●●
after_response             ●●●●··●●
before_tool                ●·●●●●●·
on_tool_error              ●·●●··●●
after_tool                 ●●●···●●
after_tool_batch           ●●●···●●
before_finish              ●●●···●·
before_compact             ●··●··●·
before_steering            ●●●···●·
before_plugin_opts_update  ●·●●··●·
"""

_BEYOND: Final = {
    "replace_prompt": ("before_prompt", "before_steering"),
    "replace_response": ("after_response",),
    "replace_messages": ("before_request", "before_compact"),
    "replace_tool_result": ("after_tool",),
    "hold_tool": ("before_tool",),
    "add_context": ("before_request",),
    "set_section": (
        "session_start",
        "before_prompt",
        "before_request",
        "after_response",
        "after_tool",
        "after_tool_batch",
    ),
    "ask": tuple(hook for hook in HOOKS if hook not in ("session_end", "before_steering", "before_plugin_opts_update")),
}

ACCEPTED: Final = frozenset(
    (line.split()[0], action)
    for line in _SEED.strip().splitlines()
    for action, mark in zip(ACTIONS[:8], line.split()[1], strict=True)
    if mark == "●"
) | frozenset((hook, action) for action, hooks in _BEYOND.items() for hook in hooks)
"""The pairs of hook and action that are accepted."""

FOLDS: Final = (
    "continue asks the next plugin",
    "intervene accumulates: joined by a blank line, injected once",
    "abort stops the pipeline: states and emits stand, everything else is dropped",
    "abort of a prompt refuses the prompt and nothing else",
    "abort of a start: the session does not start",
    "abort of steering refuses the text and nothing else",
    "abort of new options refuses them",
    "skip only stops later plugins: what earlier ones did stands",
    "skip of a compaction: none",
    "skip of new options refuses them",
    "skip of a tool error: no more retries",
    "block gives this call an error result; the others go on; states and emits stand",
    "replacements are threaded: the next plugin sees the new value, the last one counts",
    "a guard is asked once more about arguments replaced behind it",
    "a guard asked once more: only continue, block, hold and abort count",
    "a guard asked once more: another replacement blocks the call",
    "emit accumulates in order, whatever the end",
    "emit takes one, several, or a pair as payload",
    "emit adds user_data to a mapping, unless told not to",
    "any action can also emit",
    "switch_model: the last one wins",
    "switch_model in before_request is for this request",
    "switch_model between pipelines: the later one wins",
    "hold suspends at the plugin; approval resumes behind it",
    "set_section: the last per key wins; none removes",
    "add_context accumulates: each text is a message of this request, in order",
    "priority: lower first, equal in order of registration",
    "ask stops at the plugin; the answer goes to it, with its current state",
    "ask: any other hook waits, pipelines of different calls do not",
    "ask: a late answer is ignored",
    "RunTool passes all plugins that rule tools except the asker",
    "RunTool: a plugin that rules on it may ask; the run waits, or is refused",
)
"""The rules of "How the answers combine" and of "Ask"."""

FIGURES: Final = (
    "max_prompt_queue 100",
    "max_steering_queue 3",
    "max_interventions 5",
    "hold timeout 120 s",
    "grace 250 ms",
    "stall_timeout 30 s",
    "stall_limit 2",
    "max_retries 5",
    "back-off 2 s, doubled, up to 60 s",
    "tool_max_retries 2",
    "repeat_pattern 3",
    "file_loop_warn 5",
    "file_loop_abort 8",
    "calls of one response 64",
    "max_parallel_tools 8",
    "max_rounds 100",
    "max_turn_seconds off",
    "state of a plugin 64 KiB",
    "on_event off after 3 failures",
    "ask deadline 10 s",
    "asks limited to 8",
    "14 hooks, 15 actions",
    "priority bands 0, 100, 300, 600, 900",
)
"""Every sentence with a number that the machine implements."""

FIGURES_ELSEWHERE: Final = {
    "64 higher messages, then one of a user": "tests/runtime: the mailbox",
    "user lane 64 messages and 1 MiB": "tests/runtime: the mailbox",
    "cancelled within 100 ms": "tests/runtime: the handle cancels directly",
    "agent_abort within 100 ms where a commit takes at most 50 ms": "tests/runtime: abort_pending",
    "answers to command ids 24 h and 1,000 per session": "supervision: answers over restarts",
    "event_buffer_size 256": "tests/runtime: the event log",
    "plugin_slow 50 ms": "tests/runtime: measured around the step",
    "title at most 60 characters": "models: inline tags",
}
"""Sentences with a number that the runtime implements, and where they are tested."""
