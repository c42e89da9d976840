"""From what a function returns to the result of a call."""

from __future__ import annotations

from typing import Final, cast

from agentrail.errors import NotJson
from agentrail.values.content import Data, Image, Part, Text
from agentrail.values.foreign import items_of
from agentrail.values.json import freeze
from agentrail.values.tools import Effect, Err, Ok, ToolResult, ok

DONE: Final = ok("done")


def as_result(tool: str, returned: object) -> ToolResult:
    """Return what *tool* *returned* as a result: text, parts, JSON, nothing, or a result already; else `TypeError`."""
    if returned is None:
        return DONE
    if isinstance(returned, Ok | Err | Effect):
        return returned
    if isinstance(returned, Text | Image | Data):
        return Ok((returned,))
    parts = _parts(returned)
    if parts:
        return Ok(parts)
    try:
        frozen = freeze(returned)
    except NotJson as why:
        raise TypeError(_unusable(tool, returned, why)) from why
    return Ok((Text(frozen) if isinstance(frozen, str) else Data(frozen),))


def _parts(returned: object) -> tuple[Part, ...]:
    """Return the parts that *returned* is a list or tuple of; none if it is anything else."""
    if not issubclass(type(returned), list | tuple):
        return ()
    parts: list[Part] = []
    for item in items_of(cast("list[object]", returned)):
        if not isinstance(item, Text | Image | Data):
            return ()
        parts.append(item)
    return tuple(parts)


def _unusable(tool: str, returned: object, why: NotJson) -> str:
    return (
        f"the tool `{tool}` returned a `{type(returned).__name__}` that is no result ({why}); "
        "return text, parts, JSON, None, `Ok`, `Err` or `Effect`"
    )
