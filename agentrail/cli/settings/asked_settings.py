"""Decides for each setting of a folder whether the user must allow it: a cloned folder is trusted with nothing.

What could run something, loosen what is asked, cost more, or reach out of the folder is asked about. So are words that
the model gets in the voice of the user. A test walks all settings, so that a new one has to be decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.cli.settings.default_agent import OPTIONS
from agentrail.values.json import Json

ASKED: Final[Mapping[str, str]] = {
    "journal": "where sessions are written",
    "mode": "what runs without asking",
    "model_options": "they may send prompts and keys elsewhere",
    "network": "commands would reach ports and abstract sockets of this machine",
    "on_repeat_unknown": "a call that may have had its effect would run again",
    "prompt_mode": "it leaves out parts of what the model is told",
    "sandbox": "commands run in an image that somebody else has named",
    "supervisor": "it holds for all sessions of the journal, and may delete some",
    "system": "the model takes it for words of the user",
}
"""Settings that are asked about, with the reason."""

ASKED_UNLESS: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": ("ask", "plan"),
    "network": ("none", "outward"),
    "on_repeat_unknown": ("hold",),
    "prompt_mode": ("full",),
    "system": ("",),
}
"""Values of these settings that are not asked about."""

ASKED_IN_PARTS: Final[Mapping[str, str]] = {
    "mcp": "each server",
    "memory": "paths that lead out of the folder",
    "plugins": "each plugin",
    "skills": "paths that lead out of the folder",
}
"""Settings of which parts are asked about, with these parts."""

ASKED_IF_MORE: Final = frozenset(
    {
        "answer_max_retries",
        "event_buffer_size",
        "file_loop_abort",
        "file_loop_warn",
        "max_agent_depth",
        "max_agent_seconds",
        "max_agents",
        "max_interventions",
        "max_parallel_tools",
        "max_prompt_queue",
        "max_retries",
        "max_steering_queue",
        "max_rounds",
        "repeat_pattern",
        "stall_limit",
        "tool_max_retries",
    }
)
"""Figures that bound costs, loops or memory: one above the default is asked about."""

UNASKED: Final[Mapping[str, str]] = {
    "compact_at": "the context stays within the window of the model",
    "compact_to": "the context stays within the window of the model",
    "context_window": "the provider refuses more than its model takes",
    "environment": "it can only leave out the folder, the platform and the date",
    "fallback_after": "there are no other models than that of `model`",
    "hibernate_after": "the session comes back with its next message",
    "inline_tags": "it says how an answer is shown",
    "max_turn_seconds": "there is no limit without it",
    "model": "only a provider of which you have a key answers, and `chat` shows which",
    "on_prompt_while_held": "held calls wait for you in both cases",
    "page": "it can only leave out the port",
    "retry_base": "how often it is tried again is bounded",
    "shutdown": "the program ends in its own time",
    "stall_timeout": "you can stop a turn at any time",
    "user_data": "plugins alone read it, and they are allowed one by one",
}
"""Settings that are not asked about, with the reason."""


def has_to_be_allowed(key: str, value: Json) -> bool:
    """Whether the user has to allow the setting *key* as a whole, with this *value*."""
    if key in ASKED_IF_MORE:
        figure = getattr(OPTIONS, key)
        return not isinstance(value, int | float) or value > figure
    return key in ASKED and value not in ASKED_UNLESS.get(key, ())
