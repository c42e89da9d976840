"""Turns an entry of `SessionSpec.tools` into a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import cast

from agentrail.errors import BadTool
from agentrail.other_names import hint_for
from agentrail.ports.tool import Tool
from agentrail.tools.declaring import check_whole
from agentrail.tools.function import Made, tool
from agentrail.values.argument_checks import checked
from agentrail.values.tools import EffectClass, ToolSpec


@checked
def as_tool(value: object) -> Tool:
    """Return *value*, a function or an object with `spec` and `execute`, as a tool; else raise `BadTool`."""
    if isinstance(value, Made):
        return cast("Tool", value)
    name = getattr(value, "__name__", type(value).__name__)
    if isinstance(value, type):
        raise BadTool(name, "it is a class; make an object of it")
    if inspect.isroutine(value):
        return tool(cast("Callable[..., object]", value))
    spec = getattr(value, "spec", None)
    if not isinstance(spec, ToolSpec):
        instead = hint_for("as_tool", name) or "use a function, or a class with `spec` and `execute`"
        raise BadTool(name, f"it has no `spec` that is a `ToolSpec`; {instead}")
    if not inspect.iscoroutinefunction(getattr(value, "execute", None)):
        raise BadTool(
            spec.name, "it has no `execute` that is an `async def`; give it `async def execute(self, args, ctx)`"
        )
    if spec.effect is EffectClass.CHECKABLE and not callable(getattr(value, "probe", None)):
        raise BadTool(spec.name, "a `checkable` tool has a `probe(key)`; give it one, or declare it `unsafe`")
    check_whole(spec)
    return cast("Tool", value)
