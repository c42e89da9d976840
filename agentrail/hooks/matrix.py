"""The hook × action matrix, read off the return annotations of `Plugin`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, get_args, get_origin, get_type_hints

from agentrail.hooks.actions import Action
from agentrail.hooks.moments import HOOKS
from agentrail.hooks.plugin import Plugin


@cache
def accepted() -> Mapping[str, frozenset[type[Action[object]]]]:
    """Return which actions each hook accepts."""
    table: dict[str, frozenset[type[Action[object]]]] = {}
    for hook in HOOKS:
        answer = get_type_hints(getattr(Plugin, hook.moment))["return"]
        table[hook.moment] = frozenset(get_origin(action) for action in get_args(answer))
    return MappingProxyType(table)


MATRIX: Final = accepted()
"""Hook name → the classes of action that it accepts."""
