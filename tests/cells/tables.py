"""The hooks and actions in short form, and which hook accepts which action."""

from __future__ import annotations

from typing import Final

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
