"""`Placement`: hands code of the program to its asyncio loop, marked or not, where a supervisor takes it in.

An `async def` that is not marked is Trio's, unless its code names asyncio, or a library that needs it, and not Trio:
then it is treated as marked.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
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

ENCLOSED: Final = "LOAD_DEREF"
"""Instruction that looks up a variable of an enclosing function, or one that an inner function has too."""

LOOKS_UP: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", ENCLOSED, IMPORTS, *ATTRIBUTES})
"""Instructions that look up a name outside of the function."""

NAMED: Final = (type, FunctionType, BuiltinFunctionType, MethodType)
"""What has the name of its module itself; of anything else, that of its class counts."""

WRAPPED: Final = "__wrapped__"
"""The attribute in which a decorator leaves what it decorates."""

LAYERS: Final = 100
"""How many decorators, methods and partials around one function are seen through; they may lie in a circle."""


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
    outer = _enclosed(plain)
    for operation, name in _lookups(plain.__code__):
        if operation == IMPORTS:
            yield name
            continue
        value: object
        if operation in ATTRIBUTES:
            value = _member(owner, name)
        else:
            value = outer.get(name) if operation == ENCLOSED else plain.__globals__.get(name)
        if _is(value, ModuleType):
            yield cast("ModuleType", value).__name__
            continue
        named = value if _is(value, NAMED) else cast("object", type(value))
        home: object = getattr(named, "__module__", None)
        if isinstance(home, str):
            yield home
        yield from _modules(value, visited)


def _is(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether *value* is of one of *kinds* by its type: `isinstance` would run code of a lazy object, which may raise.

    Held by tests/bridge/test_marked_code.py::test_what_a_function_names_is_not_run_to_tell_its_kind.
    """
    return issubclass(type(value), kinds)


def _enclosed(function: FunctionType) -> Mapping[str, object]:
    """Return the variables of enclosing functions that *function* names, without those that have no value yet."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: value for name, cell in cells for value in _content(cell)}


def _content(cell: CellType) -> tuple[object, ...]:
    """Return what *cell* holds; empty if its variable is assigned later."""
    try:
        return (cast("object", cell.cell_contents),)
    except ValueError:
        return ()


def _member(owner: object, name: str) -> object:
    """Return the attribute *name* of *owner*, a function as its method; `None` if there is no owner or attribute."""
    value = cast("object", inspect.getattr_static(owner, name, None))
    return MethodType(value, owner) if isinstance(value, FunctionType) and owner is not None else value


def _plain_function(fn: object) -> tuple[FunctionType | None, object]:
    """Return the Python function in *fn*, and its object; each is `None` if there is none.

    *fn* may be a function, a method, a `partial`, decorated, or an object that can be called.
    """
    owner: object = None
    for _ in range(LAYERS):
        if _is(fn, partial):
            fn = cast("partial[object]", fn).func
        elif _is(fn, MethodType):
            method = cast("MethodType", fn)
            owner, fn = method.__self__, method.__func__
        elif (wrapped := _wrapped(fn)) is not None:
            fn = wrapped
        elif _is(fn, FunctionType):
            return cast("FunctionType", fn), owner
        elif (called := _called(fn)) is not None:
            owner, fn = fn, called
        else:
            break
    return None, owner


def _called(value: object) -> FunctionType | None:
    """Return the function `__call__` in the class of *value*; `None` if it has none that is written in Python."""
    method: object = inspect.getattr_static(type(value), "__call__", None)
    return method if isinstance(method, FunctionType) else None


def _wrapped(value: object) -> object:
    """Return what the decorated function *value* wraps; `None` if it wraps nothing.

    Objects that make up an attribute for each name, such as a proxy of a server, are not asked: they would have one in
    which there is another, without end.
    """
    if inspect.getattr_static(value, WRAPPED, None) is None:
        return None
    try:
        return cast("object", getattr(value, WRAPPED, None))
    except Exception:  # noqa: BLE001 - a property of a foreign class
        return None


@lru_cache(maxsize=256)
def _lookups(code: CodeType) -> tuple[tuple[str, str], ...]:
    """Return the instructions of *code*, and of the functions in it, that look up a name: operation and name."""
    own = [(line.opname, str(line.argval)) for line in dis.get_instructions(code) if line.opname in LOOKS_UP]
    inner = [_lookups(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(dict.fromkeys([*own, *chain.from_iterable(inner)]))
