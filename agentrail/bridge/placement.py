"""`Placement`: hands code of the program to its asyncio loop, marked or not, where a supervisor takes it in.

An `async def` that is not marked is Trio's, unless its code names asyncio, or a library that needs it, and not Trio:
then it is treated as marked.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache, partial
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final, TypeVar, cast
from weakref import WeakValueDictionary

from agentrail.bridge.marked import LoopModel, moved, service, tool
from agentrail.ports.model import Model
from agentrail.ports.tool import Tool
from agentrail.runtime.shared.code_loops import CODE_LOOPS, is_asyncio
from agentrail.tools.function import FunctionTool

F = TypeVar("F", bound=Callable[..., object])

TRIO_ALONE: Final = frozenset({"trio", "trio_websocket"})
"""Packages whose coroutines need Trio."""

IMPORTS: Final = "IMPORT_NAME"
"""Instruction that looks up a module."""

ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
"""Instructions that look up an attribute of some object; it counts if the object of the method has one of that name."""

LOOKS_UP: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", IMPORTS, *ATTRIBUTES})
"""Instructions that look up a name outside of the function."""


class Placement:
    """Tells code of the asyncio loop from code of Trio, and has it called there: the `CodeLoops` of a bridge."""

    def __init__(self) -> None:
        self._models: WeakValueDictionary[int, LoopModel] = WeakValueDictionary()
        """What calls a model in the loop, by the identity of the model, which it keeps alive."""

    def install(self) -> None:
        """Have the run of Trio of the caller place code."""
        CODE_LOOPS.set(self)

    def tool(self, value: Tool) -> Tool:
        """Return the tool *value*, or what calls it in the loop if it belongs there."""
        if isinstance(value, FunctionTool):
            function_tool = cast("FunctionTool[..., object]", value)
            return moved(function_tool) if names_asyncio(function_tool) else function_tool
        return tool(value) if names_asyncio(getattr(value, "execute", None)) else value

    def function(self, function: F) -> F:
        """Return *function*, or what calls it in the loop if it belongs there."""
        if not names_asyncio(function):
            return function
        return cast("F", service(cast("Callable[..., Awaitable[object]]", function)))

    def model(self, value: Model) -> Model:
        """Return the model *value*, or what calls it in the loop if it belongs there: for one model always the same."""
        if not names_asyncio(value.stream) or isinstance(value, LoopModel):
            return value
        placed_model = self._models.get(id(value))
        if placed_model is None:
            placed_model = self._models[id(value)] = LoopModel(value)
        return placed_model


def names_asyncio(fn: object) -> bool:
    """Whether *fn* is an `async def` whose code names asyncio, or a library that needs it, and not Trio.

    The code of async functions that it names counts too, and for a method what lies in its object.
    """
    if getattr(fn, "check_loop", None) is not None:
        return False
    modules = frozenset(_modules(fn, set()))
    return any(map(is_asyncio, modules)) and all(name.partition(".")[0] not in TRIO_ALONE for name in modules)


def _modules(fn: object, visited: set[CodeType]) -> Iterator[str]:
    """Yield the modules of what the async function *fn* looks up, and of what async functions among it look up."""
    plain, owner = _plain_function(fn)
    if plain is None or plain.__code__ in visited or not inspect.iscoroutinefunction(plain):
        return
    visited.add(plain.__code__)
    outer = inspect.getclosurevars(plain).nonlocals
    for operation, name in _lookups(plain.__code__):
        if operation == IMPORTS:
            yield name
            continue
        is_member = operation in ATTRIBUTES
        value: object = _member(owner, name) if is_member else outer.get(name, plain.__globals__.get(name))
        if isinstance(value, ModuleType):
            yield value.__name__
            continue
        home: object = getattr(value if inspect.isroutine(value) else type(value), "__module__", None)
        if isinstance(home, str):
            yield home
        yield from _modules(value, visited)


def _member(owner: object, name: str) -> object:
    """Return the attribute *name* of *owner*, a function as its method; `None` if there is no owner or attribute."""
    value = cast("object", inspect.getattr_static(owner, name, None))
    return MethodType(value, owner) if isinstance(value, FunctionType) and owner is not None else value


def _plain_function(fn: object) -> tuple[FunctionType | None, object]:
    """Return the Python function in *fn*, which may be a method, a `partial`, or decorated, and its object.

    Each is `None` if there is none.
    """
    owner: object = None
    while isinstance(fn, partial | MethodType) or hasattr(fn, "__wrapped__"):
        match fn:
            case partial():
                fn = cast("object", fn.func)
            case MethodType():
                owner = fn.__self__
                fn = fn.__func__
            case _:
                fn = cast("object", getattr(fn, "__wrapped__", None))
    return (fn if isinstance(fn, FunctionType) else None), owner


@lru_cache(maxsize=256)
def _lookups(code: CodeType) -> tuple[tuple[str, str], ...]:
    """Return the instructions of *code*, and of the functions in it, that look up a name: operation and name."""
    own = [(line.opname, str(line.argval)) for line in dis.get_instructions(code) if line.opname in LOOKS_UP]
    inner = [_lookups(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(dict.fromkeys([*own, *chain.from_iterable(inner)]))
