"""What a marked tool gets beside its arguments: a `ToolContext` whose parts can be used in the loop of the program.

The parts live on Trio. Their types are protocols, so type checkers see the methods of those, and the mirror is made of
whatever a part has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Final, TypeVar, cast

import attrs

from agentrail.bridge.host_loop import HostLoop
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import ToolContext, ToolResources, Web
from agentrail.reprs import in_brackets
from agentrail.values.value import Value

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
