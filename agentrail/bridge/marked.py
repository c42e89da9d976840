"""Marks of code that runs in the asyncio loop of the program: `tool`, `service`, `model`, as `agentrail.aio` has them.

What is not marked is Trio's if it is an `async def`, and runs in a worker thread if it is a plain function. But an
`async def` whose code names asyncio, or a library that needs it, and not Trio, is treated as marked: `Placement` finds
it, where a supervisor takes it in.

What a marked tool gets beside its arguments is a `ToolContext` whose parts can be used in the loop of the program. The
parts live on Trio. Their types are protocols, so type checkers see the methods of those, and the mirror is made of
whatever a part has.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Final, ParamSpec, Protocol, TypeVar, cast, final, overload
from weakref import WeakValueDictionary

import attrs
import trio
from typing_extensions import Unpack

from agentrail.bridge.host_loop import HostLoop, Relay, host_loop
from agentrail.errors import BadTool
from agentrail.ports.model import EmitChunk, Model
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import Checkable, Tool, ToolContext, ToolResources, Web
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.code_loops import CODE_LOOPS, is_asyncio
from agentrail.tools import tool as trio_tool
from agentrail.tools.declaring import ToolOptions
from agentrail.tools.function import FunctionTool, Made, SyncTool, read_function
from agentrail.tools.wanted_deps import WantsDeps, wanted_deps
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.tools import Probed, ToolResult, ToolSpec
from agentrail.values.value import Value

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Awaitable[object]])
M = TypeVar("M", bound=Model)
G = TypeVar("G", bound=Callable[..., object])

STARTED: Final = "task_status"
"""The parameter by which a service of a supervisor says that it is ready."""


@final
class LoopTool(Made[P, Coroutine[object, object, R]]):
    """A tool made of an asyncio function, which runs in the loop of the program; it can be called like the function."""

    def check_loop(self) -> None:
        """Raise `UsageError` if there is no such loop here."""
        host_loop(self._what)

    @property
    def _what(self) -> str:
        return f"tool `{self.spec.name}`"

    async def _call(self, arguments: dict[str, object], ctx: ToolContext, /) -> object:
        host = host_loop(self._what)
        report = Relay(ctx.report, host)
        mirrored = {name: on_loop(ctx, host, report) if value is ctx else value for name, value in arguments.items()}
        work = partial(cast("Callable[..., Coroutine[object, object, R]]", self._fn), **mirrored)
        return await report.over(host.run(work, self._what))


class LoopToolObject(WantsDeps):
    """A tool with a class of its own, whose methods are asyncio functions."""

    def __init__(self, tool_object: Tool) -> None:
        self.spec: ToolSpec = tool_object.spec
        """The specification of the tool."""
        self._tool = tool_object
        self.wanted_deps = wanted_deps(tool_object)

    @property
    def _what(self) -> str:
        return f"tool `{self.spec.name}`"

    def check_loop(self) -> None:
        """Raise `UsageError` if there is no such loop here."""
        host_loop(self._what)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Execute a call, in the loop of the program."""
        host = host_loop(self._what)
        report = Relay(ctx.report, host)
        work = partial(self._tool.execute, args, on_loop(ctx, host, report))
        return await report.over(host.run(work, self._what))


class CheckableLoopTool(LoopToolObject):
    """Such a tool that can find out what became of an interrupted call."""

    async def probe(self, key: str) -> Probed:
        """Return what became of the call that ran under the idempotency key *key*."""
        return await host_loop(self._what).run(partial(cast("Checkable", self._tool).probe, key), self._what)


class LoopDecorator(Protocol):
    """The type of `tool(…)` with options: a decorator that makes a tool of a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[object, object, R]], /) -> LoopTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits counts

    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTool[P, R]: ...


@overload
def tool(fn: Callable[P, Coroutine[object, object, R]], /) -> LoopTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits counts


@overload
def tool(fn: Callable[P, R], /) -> SyncTool[P, R]: ...


@overload
def tool(fn: Tool, /) -> Tool: ...


@overload
def tool(*, name: str | None = None, **options: Unpack[ToolOptions]) -> LoopDecorator: ...


def tool(fn: object = None, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> object:
    """Make a tool of an asyncio function, as `agentrail.tool` does of one for Trio; it runs in the loop of the program.

    That is the loop that opened the supervisor. A tool with a class of its own is marked too, as an object. A sync
    function runs in a worker thread, marked or not.
    """

    def decorate(fn: object) -> object:
        return _tool_of(fn, name, options)

    return decorate if fn is None else decorate(fn)


def _tool_of(fn: object, name: str | None, options: ToolOptions) -> object:
    """Return the marked tool made of *fn*: a function, a tool made of one, or an object with `spec` and `execute`."""
    if isinstance(fn, LoopTool | LoopToolObject | SyncTool):
        return cast("object", fn)
    if isinstance(fn, FunctionTool):
        return moved(cast("FunctionTool[..., object]", fn))
    if inspect.iscoroutinefunction(fn):
        return LoopTool(fn, *read_function(fn, name, options))
    if callable(fn):
        return trio_tool(name=name, **options)(fn)
    if not isinstance(getattr(fn, "spec", None), ToolSpec):
        raise BadTool(type(fn).__name__, "it is no function, and no object with `spec` and `execute`")
    tool_object = cast("Tool", fn)
    return CheckableLoopTool(tool_object) if has_members(fn, Checkable) else LoopToolObject(tool_object)


def moved(function_tool: FunctionTool[P, R]) -> LoopTool[P, R]:
    """Return the tool *function_tool*, as one that runs in the loop of the program."""
    copy = cast("LoopTool[P, R]", LoopTool.__new__(LoopTool))
    vars(copy).update(vars(function_tool))
    return copy


class _Started(trio.TaskStatus[object]):
    """Says on Trio that a service is ready, when the service says so in its loop."""

    def __init__(self, status: trio.TaskStatus[object], host: HostLoop) -> None:
        self._status = status
        self._host = host

    def started(self, value: object = None) -> None:
        """Say that the service is ready."""
        self._host.post(partial(self._status.started, value))


def _called_on_trio(argument: object, host: HostLoop) -> object:
    """Return *argument* for code in the loop: an async function, such as one that asks a model, runs on Trio."""
    if not inspect.iscoroutinefunction(argument):
        return argument

    async def call(*args: object, **named: object) -> object:
        return await host.call(partial(argument, *args, **named))

    return call


def service(fn: F, /) -> F:
    """Mark an asyncio function that is no tool: a service, a compactor, or another that agentrail is given and calls.

    A service is one of `SessionSpec.services`, or of `supervisor.start_service`.
    """
    what = f"service `{getattr(fn, '__name__', type(fn).__name__)}`"

    @functools.wraps(fn)
    async def run_in_loop(*args: object, **named: object) -> object:
        host = host_loop(what)
        task_status = named.get(STARTED)
        if task_status is not None:  # of `start_service`, which waits on Trio until the service is ready
            named[STARTED] = _Started(cast("trio.TaskStatus[object]", task_status), host)
        loop_args = [_called_on_trio(argument, host) for argument in args]
        return await host.run(partial(fn, *loop_args, **named), what)

    setattr(run_in_loop, "check_loop", partial(host_loop, what))  # noqa: B010 - type checkers know no such attribute
    return cast("F", run_in_loop)


class LoopModel:
    """A model whose `stream` is an asyncio function."""

    def __init__(self, model: Model) -> None:
        self.name: str = model.name
        """Name of the model."""
        self._model = model
        # What else a model may have is looked up by its name.
        for member in dir(model):
            if not member.startswith("_") and member not in ("name", "stream"):
                setattr(self, member, getattr(model, member))

    @property
    def _what(self) -> str:
        return f"model `{self.name}`"

    def check_loop(self) -> None:
        """Raise `UsageError` if there is no such loop here."""
        host_loop(self._what)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Make one attempt at a request, in the loop of the program."""
        host = host_loop(self._what)
        passed_on = Relay(emit, host)
        return await passed_on.over(host.run(partial(self._model.stream, request, passed_on), self._what))


def model(model: M, /) -> M:
    """Mark a model whose `stream` is an asyncio function; it runs in the loop of the program."""
    return cast("M", LoopModel(model))


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

    def function(self, function: G) -> G:
        """Return *function*, or what calls it in the loop if it belongs there."""
        if not names_asyncio(function):
            return function
        return cast("G", service(cast("Callable[..., Awaitable[object]]", function)))

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
    lookups = [(line.opname, str(line.argval)) for line in dis.get_instructions(code) if line.opname in LOOKS_UP]
    inner = [_lookups(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(dict.fromkeys([*lookups, *chain.from_iterable(inner)]))


T = TypeVar("T")

PARTS: Final = ("jobs", "threads", "agents", "past", "peers")
"""The parts that a context holds as they are; sandbox and web are made at their first use."""

LIVE: Final = ("run", "kill")
"""Methods of which a result has one if it is no data, but lives on Trio too: a process or a job."""

PIECES: Final = "on_output"
"""The parameter for a function that gets output as it comes."""


class PartMirror:
    """Stands for a part of a `ToolContext`: its async methods are calls over the bridge, its others run on Trio too."""

    __slots__ = ("_host", "_part")

    def __init__(self, part: object, host: HostLoop) -> None:
        self._part = part
        """What lives on Trio."""
        self._host = host
        """The loop in which the mirror is used."""

    @in_brackets
    def __repr__(self) -> str:
        return f"of {self._part!r}"

    def __getattr__(self, name: str) -> object:
        """Return the member *name*, as it can be used in the loop."""
        member: object = getattr(self._part, name)
        if inspect.iscoroutinefunction(member):
            return partial(self._call, cast("Callable[..., Coroutine[object, object, object]]", member))
        if inspect.isroutine(member):
            return partial(self._act, cast("Callable[..., object]", member))
        return mirrored(member, self._host)

    async def _call(
        self, method: Callable[..., Coroutine[object, object, object]], *args: object, **named: object
    ) -> object:
        """Call an async method, on Trio."""
        work = self._bound(method, args, named)
        return mirrored(await self._host.call(work), self._host)

    def _act(self, method: Callable[..., object], *args: object, **named: object) -> object:
        """Call a method, on Trio, and block until it has returned: it takes no time."""
        work = self._bound(method, args, named)
        return mirrored(self._host.call_now(work), self._host)

    def _bound(
        self, method: Callable[..., T], args: tuple[object, ...], named: Mapping[str, object]
    ) -> Callable[[], T]:
        """Return *method* with its arguments, as it is called on Trio; a function for output is called in the loop."""
        bound = inspect.signature(method).bind(*args, **named)
        values: dict[str, object] = bound.arguments
        on_output = cast("Callable[[bytes], None] | None", values.get(PIECES))
        if on_output is not None:

            def passed_on(piece: bytes) -> None:
                """Call the function in the loop."""
                self._host.put(partial(on_output, piece))

            values[PIECES] = passed_on
        return partial(method, *map(original, bound.args), **bound.kwargs)


def mirrored(value: object, host: HostLoop) -> object:
    """Return *value*, which a part has or returns, as it can be used in the loop: data as it is."""
    if type(value) is tuple:
        return tuple(mirrored(item, host) for item in cast("tuple[object, ...]", value))
    return _live(value, host)


def _live(value: object, host: HostLoop) -> object:
    """Return the mirror of *value* if it lives on Trio, else *value*."""
    is_live = not isinstance(value, Value) and any(hasattr(value, name) for name in LIVE)
    return PartMirror(value, host) if is_live else value


def original(value: object) -> object:
    """Return what *value*, an argument, mirrors; *value* itself if it is no mirror."""
    return object.__getattribute__(value, "_part") if isinstance(value, PartMirror) else value


class LoopResources(ToolResources):
    """The sandbox and the web fetcher of a context, mirrored at their first use."""

    __slots__ = ("_ctx", "_host")

    def __init__(self, ctx: ToolContext, host: HostLoop) -> None:
        self._ctx = ctx
        """The context on Trio."""
        self._host = host
        """The loop in which they are used."""

    @property
    def sandbox(self) -> Sandbox:
        """Sandbox of the session's tools."""
        return cast("Sandbox", PartMirror(self._ctx.sandbox, self._host))

    @property
    def web(self) -> Web:
        """Fetcher of web pages."""
        return cast("Web", PartMirror(self._ctx.web, self._host))


def on_loop(ctx: ToolContext, host: HostLoop, report: Callable[[str], None]) -> ToolContext:
    """Return *ctx* for code in the loop of *host*, which reports progress by *report*."""
    parts = {name: PartMirror(part, host) for name in PARTS if (part := getattr(ctx, name)) is not None}
    resources = LoopResources(ctx, host)
    evolve = cast("Callable[..., ToolContext]", attrs.evolve)
    return evolve(ctx, report=report, sandbox=resources, web=resources, **parts)
