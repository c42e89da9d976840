"""Reads from the annotations of a tool which dependencies it wants: `Deps` of its parameter `ToolContext[Deps]`."""

from __future__ import annotations

from functools import lru_cache
from inspect import getattr_static
from typing import Final, cast, get_args, get_origin, get_type_hints

from agentrail.ports.tool import Tool, ToolContext

_GENERIC: Final = "ToolContext["


class WantsDeps:
    """Base class of tools that know which dependencies the code in them wants."""

    wanted_deps: object = None
    """Type of the dependencies; `None` if none are wanted."""


def deps_in(hint: object) -> object:
    """Return the type of dependencies in *hint*, an annotation `ToolContext[Deps]`; `None` for any other."""
    return get_args(hint)[0] if get_origin(hint) is ToolContext else None


def wanted_deps(tool: Tool) -> object:
    """Return the type of the dependencies that *tool* wants; `None` if it wants none."""
    return tool.wanted_deps if isinstance(tool, WantsDeps) else _wanted_by(type(tool))


@lru_cache(maxsize=256)
def _wanted_by(cls: type) -> object:
    """Return the type of the dependencies that `execute` of *cls* wants; `object` if its name has no value here."""
    execute = cast("object", getattr_static(cls, "execute", None))
    annotations = cast("dict[str, object]", getattr(execute, "__annotations__", {}))
    if not any(_GENERIC in str(hint) for hint in annotations.values()):
        return None  # most tools: evaluating their annotations would take long
    try:
        hints = get_type_hints(execute)
    except Exception:  # noqa: BLE001 - an annotation is code, which may raise anything
        return object
    return next(filter(None, map(deps_in, hints.values())), None)
