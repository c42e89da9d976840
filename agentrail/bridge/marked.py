"""Marks of code that runs in the asyncio loop of the program: `tool`, `service`, `model`, as `agentrail.aio` has them.

What is not marked is Trio's if it is an `async def`, and runs in a worker thread if it is a plain function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar, cast, final, overload

import trio
from typing_extensions import Unpack

from agentrail.bridge.host_loop import HostLoop, Relay, host_loop
from agentrail.bridge.tool_context import on_loop
from agentrail.errors import BadTool
from agentrail.ports.model import EmitChunk, Model
from agentrail.ports.tool import Checkable, Tool, ToolContext
from agentrail.tools import tool as trio_tool
from agentrail.tools.declaring import ToolOptions
from agentrail.tools.function import FunctionTool, Made, SyncTool, read_function
from agentrail.tools.wanted_deps import WantsDeps, wanted_deps
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.tools import Probed, ToolResult, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Awaitable[object]])
M = TypeVar("M", bound=Model)

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
    return CheckableLoopTool(tool_object) if isinstance(fn, Checkable) else LoopToolObject(tool_object)


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
    async def serve(*args: object, **named: object) -> object:
        host = host_loop(what)
        status = named.get(STARTED)
        if status is not None:
            named[STARTED] = _Started(cast("trio.TaskStatus[object]", status), host)
        return await host.run(partial(fn, *[_called_on_trio(argument, host) for argument in args], **named), what)

    setattr(serve, "check_loop", partial(host_loop, what))  # noqa: B010 - type checkers know no such attribute
    return cast("F", serve)


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
