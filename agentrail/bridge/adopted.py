"""What a supervisor outside of Trio takes over from its program: code that is the program's loop's, marked or not.

An `async def` that is not marked is Trio's, unless its code names asyncio, or a library that needs it, and not Trio:
then it is treated as marked.
"""

from __future__ import annotations

import dis
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache, partial, wraps
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final, TypeVar, cast

from agentrail.app.spec import SessionSpec, Specs, check_spec
from agentrail.bridge.marked import moved, service, tool
from agentrail.errors import AgentrailError
from agentrail.ports.tool import Tool
from agentrail.tools.function import FunctionTool

if TYPE_CHECKING:
    from agentrail.runtime.handle import SessionHandle

log = logging.getLogger("agentrail.bridge")

F = TypeVar("F")
S = TypeVar("S", bound="SessionSpec | None")

ASYNCIO_ALONE: Final = frozenset(
    (
        *("aioboto3", "aiobotocore", "aiofiles", "aiohttp", "aiokafka", "aiomysql", "aiopg", "aioredis", "aiosqlite"),
        *("asyncio", "asyncpg", "motor", "nats", "tortoise", "uvloop"),
    )
)
"""Packages whose coroutines need an asyncio loop."""

TRIO_ALONE: Final = frozenset({"trio", "trio_websocket"})
"""Packages whose coroutines need Trio."""

LOOKS_UP: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "IMPORT_NAME"})
"""Instructions that look up a name outside of the function."""


def adopted(spec: S) -> S:
    """Return *spec* with its tools and services, and those of its sub-agents, each for the loop that it belongs to.

    Raise an error if it is no specification that can be run.
    """
    if spec is None:
        return spec
    check_spec(spec)
    changes: dict[str, object] = {}
    tools = tuple(map(adopted_tool, spec.tools))
    if any(new is not old for new, old in zip(tools, spec.tools, strict=True)):
        changes["tools"] = tools
    services = {name: adopted_service(fn) for name, fn in spec.services.items()}
    if any(fn is not spec.services[name] for name, fn in services.items()):
        changes["services"] = services
    agents = {name: adopted(agent) for name, agent in spec.agents.items()}
    if any(agent is not spec.agents[name] for name, agent in agents.items()):
        changes["agents"] = agents
    return cast("S", spec.but(**changes)) if changes else spec


def adopted_tool(value: object) -> object:
    """Return *value*, an entry of `SessionSpec.tools`, as a marked tool if it belongs to the loop of the program."""
    if isinstance(value, FunctionTool):
        function_tool = cast("FunctionTool[..., object]", value)
        return moved(function_tool) if names_asyncio(function_tool) else function_tool
    if inspect.isroutine(value):
        return tool(cast("Callable[..., object]", value)) if names_asyncio(value) else value
    execute: object = getattr(value, "execute", None)
    return tool(cast("Tool", value)) if inspect.ismethod(execute) and names_asyncio(execute) else value


def adopted_service(fn: F) -> F:
    """Return the function *fn* as a marked service if it belongs to the loop of the program."""
    return cast("F", service(cast("Callable[..., Awaitable[object]]", fn))) if names_asyncio(fn) else fn


def names_asyncio(fn: object) -> bool:
    """Whether *fn* is an `async def` whose code names asyncio, or a library that needs it, and not Trio.

    The code of async functions that it names counts too.
    """
    plain = _plain_function(fn)
    return plain is not None and getattr(fn, "check_loop", None) is None and _is_for_asyncio(plain)


@lru_cache(maxsize=256)
def _is_for_asyncio(fn: FunctionType) -> bool:
    packages = frozenset(_packages(fn, set()))
    return not packages.isdisjoint(ASYNCIO_ALONE) and packages.isdisjoint(TRIO_ALONE)


def _packages(fn: object, visited: set[CodeType]) -> Iterator[str]:
    """Yield the top packages that the async function *fn* uses, and those of the async functions that it names."""
    plain = _plain_function(fn)
    if plain is None or plain.__code__ in visited or not inspect.iscoroutinefunction(plain):
        return
    visited.add(plain.__code__)
    outside = inspect.getclosurevars(plain)
    for name in _names(plain.__code__):
        value: object = outside.nonlocals.get(name, plain.__globals__.get(name, name))
        if isinstance(value, str):  # a module that the function imports itself, or no module
            yield value.partition(".")[0]
        elif isinstance(value, ModuleType):
            yield value.__name__.partition(".")[0]
        else:
            home: object = getattr(value, "__module__", None)
            yield home.lstrip("_").partition(".")[0] if isinstance(home, str) else ""
            yield from _packages(value, visited)


def _plain_function(fn: object) -> FunctionType | None:
    """Return the Python function in *fn*, which may be a method, a `partial`, or decorated; `None` if there is none."""
    while isinstance(fn, partial | MethodType) or hasattr(fn, "__wrapped__"):
        match fn:
            case partial():
                fn = cast("object", fn.func)
            case MethodType():
                fn = fn.__func__
            case _:
                fn = cast("object", getattr(fn, "__wrapped__", None))
    return fn if isinstance(fn, FunctionType) else None


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that *code* and the functions in it look up outside of them."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in LOOKS_UP:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def adopted_specs(specs: Specs | None) -> Specs | None:
    """Return *specs*, functions that build specifications; what they build is adopted, and they are themselves."""
    if callable(specs):
        return cast("Specs", _adopting(specs))
    if not isinstance(specs, Mapping):
        return specs
    return cast("Specs", {name: _adopting(build) for name, build in specs.items()})


def _adopting(build: object) -> object:
    """Return *build*, a function that builds a specification, so that the specification is adopted."""
    if not callable(build):
        return build
    here = adopted_service(build)

    @wraps(build)
    def adopting(*session: object) -> object:
        spec: object = here(*session)
        return _adopted_later(cast("Awaitable[object]", spec)) if isinstance(spec, Awaitable) else _adopted(spec)

    return adopting


async def _adopted_later(spec: Awaitable[object]) -> object:
    return _adopted(await spec)


def _adopted(spec: object) -> object:
    """Return *spec*, which is adopted if it is a specification."""
    return adopted(spec) if isinstance(spec, SessionSpec) else spec


async def stopped(handle: SessionHandle) -> None:
    """Stop a session that was started for a caller who was cancelled, so that nobody has its handle."""
    try:
        await handle.stop("its caller was cancelled")
    except AgentrailError as error:
        log.warning("session %s, whose caller was cancelled, could not be stopped: %s", handle.id, error)
