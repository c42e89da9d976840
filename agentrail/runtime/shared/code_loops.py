"""Hands code of the program to the event loop that it is written for, where a session or a supervisor takes it in.

All of it runs on Trio, unless the supervisor is beside an asyncio loop: then its bridge has set `CODE_LOOPS` for this
run of Trio, and code of that loop is replaced by what calls it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import trio

if TYPE_CHECKING:  # the terminal imports this module before its first prompt, and no tool
    from agentrail.ports.model import Model
    from agentrail.ports.tool import Tool

F = TypeVar("F", bound=Callable[..., object])

ASYNCIO_ALONE: Final = frozenset({"asyncpg", "asyncssh", "beanie", "motor", "nats", "playwright", "tortoise", "uvloop"})
"""Packages whose coroutines need an asyncio loop although their names do not say so."""


class CodeLoops(Protocol):
    """Interface: tells code of the asyncio loop from code of Trio."""

    def tool(self, value: Tool) -> Tool:
        """Return the tool *value*, or what calls it in the loop if it belongs there."""
        ...

    def function(self, function: F) -> F:
        """Return *function*, or what calls it in the loop if it belongs there."""
        ...

    def model(self, value: Model) -> Model:
        """Return the model *value*, or what calls it in the loop if it belongs there."""
        ...


CODE_LOOPS: Final[trio.lowlevel.RunVar[CodeLoops | None]] = trio.lowlevel.RunVar("agentrail-code-loops", None)
"""Set if the supervisors of this run of Trio are beside an asyncio loop."""


def code_loops() -> CodeLoops | None:
    """Return what tells code of the asyncio loop from code of Trio; `None` if there is no such loop."""
    try:
        return CODE_LOOPS.get()
    except RuntimeError:  # nothing of Trio runs here: a specification is checked
        return None


def bind_tool(tool: Tool) -> Tool:
    """Return *tool* as it is called on Trio; raise `UsageError` if it needs an asyncio loop and none is there."""
    loops = code_loops()
    _refuse_without_loop(tool)
    return tool if loops is None else loops.tool(tool)


def bind_function(function: F) -> F:
    """Return *function* as it is called on Trio; raise `UsageError` as `bind_tool` does."""
    loops = code_loops()
    _refuse_without_loop(function)
    return function if loops is None else loops.function(function)


def bind_functions(functions: Mapping[str, F]) -> Mapping[str, F]:
    """Return *functions*, each placed."""
    return {name: bind_function(function) for name, function in functions.items()} if functions else functions


def bind_model(model: Model) -> Model:
    """Return *model* as it is called on Trio; raise `UsageError` as `bind_tool` does."""
    loops = code_loops()
    _refuse_without_loop(model)
    return model if loops is None else loops.model(model)


def _refuse_without_loop(code: object) -> None:
    """Raise `UsageError` if *code* is marked for an asyncio loop and the supervisor of the caller has none."""
    check: object = getattr(code, "check_loop", None)  # no Protocol: `isinstance` with one is slow
    if check is not None:
        cast("Callable[[], None]", check)()


def is_asyncio(module: str) -> bool:
    """Whether the coroutines of a module need an asyncio loop, as far as its name tells: `aiohttp`, `redis.asyncio`."""
    parts = module.lstrip("_").split(".")
    return parts[0] in ASYNCIO_ALONE or any(part == "asyncio" or part.startswith("aio") for part in parts)
