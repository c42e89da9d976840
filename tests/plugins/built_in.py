"""The plugins that ship, from the list of public names: each made with its defaults, and with options that do more."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import get_annotations
from typing import Final

import agentrail.plugins
from agentrail import Plugin
from agentrail.plugins import MATRIX, AnyPlugin

NEEDED: Final[Mapping[str, Mapping[str, object]]] = {
    "ModelRouter": {"rules": [{"model": "demo", "turn_gt": 1_000_000}]},
    "Recovery": {"models": "demo"},
    "SelfVerify": {"tool": "check", "after": ()},
}
"""The options without which a plugin cannot be made, by its name."""

WIDER: Final[Mapping[str, Mapping[str, object]]] = {
    "BudgetGuard": {"max_tokens": 150, "max_calls": 2, "max_rounds": 4, "max_turn_calls": 1},
    "Cited": {"tools": ("read",), "max_tries": 1},
    "ContentPolicy": {"judge_model": "judge", "fail_open": False, "prohibited_keywords": ("bad",)},
    "HumanApproval": {"tools": ("write",), "timeout": None},
    "LargeResultOffload": {"max_tokens": 5, "head": 4, "tail": 4},
    "ModelRouter": {
        "rules": [{"model": "large", "round_gt": 1}, {"model": "late", "tokens_gt": 30}],
        "default_model": "small",
    },
    "OutputFilter": {"keywords": ("done", "secret"), "action": "abort"},
    "PatchToolCalls": {"content": "lost", "is_error": False},
    "PermissionPolicy": {"deny": "shell(rm *)", "ask": ("shell(ls)", "write"), "allow": "read", "mode": "strict"},
    "Planning": {"min_prompt_length": 1},
    "Recovery": {"models": ["a", "b"], "after_attempts": 1, "after_tool_failures": 1, "return_after": 0},
    "SecurityGuard": {"rules": frozenset(), "timeout": None},
    "SelfVerify": {"tool": "read", "max_repairs": 1},
}
"""Options with which a plugin does more, by its name."""


def shipped() -> list[type[AnyPlugin]]:
    """Return the classes of all plugins that ship, in the order in which they are asked, then by name."""
    named = [getattr(agentrail.plugins, name) for name in import_module("agentrail.plugins").__all__]
    found = {one for one in named if isinstance(one, type) and issubclass(one, AnyPlugin)} - {AnyPlugin, Plugin}
    return sorted(found, key=lambda cls: (cls.priority, cls.__name__))


def made(cls: type[AnyPlugin]) -> AnyPlugin:
    """Return a plugin of class *cls* with its defaults."""
    return _made(cls, NEEDED.get(cls.__name__, {}))


def wider(cls: type[AnyPlugin]) -> AnyPlugin:
    """Return a plugin of class *cls* with options with which it does more."""
    return _made(cls, WIDER.get(cls.__name__, NEEDED.get(cls.__name__, {})))


def _made(cls: type[AnyPlugin], options: Mapping[str, object]) -> AnyPlugin:
    try:
        return cls(**options)
    except TypeError as problem:
        message = f"`{cls.__name__}` cannot be made with {dict(options)}; add its options to `NEEDED` of {__file__}"
        raise TypeError(message) from problem


def asks(cls: type[AnyPlugin]) -> bool:
    """Whether a plugin of class *cls* may ask for something (`Ask`), by what its hooks say that they return."""
    hooks = [vars(cls)[name] for name in MATRIX if name in vars(cls)]
    return any("Ask[" in str(get_annotations(hook).get("return", "")) for hook in hooks)
