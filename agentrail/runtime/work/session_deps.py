"""`SessionDeps`: the live objects that the tools of a session get, made by the program, and kept in memory alone."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import cast, get_origin

import attrs
import trio

from agentrail.core.vocabulary.state import State
from agentrail.errors import ToolError, UsageError
from agentrail.ports.tool import NO_DEPS, DepsWanted, Tool, ToolContext
from agentrail.tools.wanted_deps import wanted_deps
from agentrail.values.untrusted_values import described, type_name


def is_maker(deps: object) -> bool:
    """Whether *deps*, of a specification, makes the dependencies; else it is them, also if it can be called."""
    return inspect.isroutine(deps) or isinstance(deps, type | partial)


def takes_session(maker: Callable[..., object]) -> bool | None:
    """Whether *maker* needs a `DepsWanted`; `None` if it needs other arguments. A class must need none."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # a class written in C may have no signature
        return False
    for args in ((),) if isinstance(maker, type) else ((), ("the session",)):
        try:
            signature.bind(*args)
        except TypeError:
            continue
        return bool(args)
    return None


class SessionDeps:
    """The dependencies of a session: given as an object, or made by a function when the first call wants them."""

    __slots__ = ("_deps", "_lock", "_make", "_origin")

    def __init__(self, deps: object, make: Callable[..., object] | None) -> None:
        self._deps = deps
        """The dependencies; `NO_DEPS` until they are made."""
        self._make = make
        """The function that makes them; `None` if the program gave them as an object."""
        self._lock = trio.Lock()
        """Held while they are made: the calls of a batch run side by side, and get the same object."""
        self._origin: DepsWanted | None = None
        """The session that sub-agents have them from; `None` if none has."""

    def shared(self, parent: State) -> SessionDeps:
        """Return the dependencies, for a sub-agent of *parent*; they are made for *parent*."""
        if self._origin is None:  # else *parent* has inherited them itself
            self._origin = _facts(parent)
        return self

    def check(self, tool: Tool) -> None:
        """Raise `UsageError` if the program gave an object that *tool* does not want."""
        if self._deps is not NO_DEPS:
            _refuse_misfit(tool, wanted_deps(tool), self._deps)

    async def context_for(self, tool: Tool, ctx: ToolContext, state: State) -> ToolContext:
        """Return *ctx*, with the dependencies if *tool* wants them; raise `UsageError` if they cannot be made."""
        kind = wanted_deps(tool)
        if kind is None:
            return ctx
        if self._deps is NO_DEPS:
            async with self._lock:
                if self._deps is NO_DEPS:  # another call may have made them meanwhile
                    self._deps = await self._call_maker(self._origin or _facts(state))
        _refuse_misfit(tool, kind, self._deps)
        evolve = cast("Callable[..., ToolContext]", attrs.evolve)
        return evolve(ctx, deps=self._deps)

    async def _call_maker(self, session: DepsWanted) -> object:
        """Return what the function makes for *session*; raise `UsageError` if it raises."""
        make = cast("Callable[..., object]", self._make)
        try:
            deps = make(session) if takes_session(make) else make()
            # Only coroutines: there are pools that can be awaited, and are not meant to be here.
            return await cast("Awaitable[object]", deps) if inspect.iscoroutine(deps) else deps
        except ToolError:  # meant for the model
            raise
        except Exception as error:
            raise UsageError(
                "bad-deps", f"its function raised {described(error)} for session `{session.session_id}`"
            ) from error


def refuse_without_deps(deps: SessionDeps | None, tools: Iterable[Tool]) -> None:
    """Raise `UsageError` if one of *tools* wants dependencies that *deps* are not, or if there are none at all."""
    for tool in tools:
        if deps is not None:
            deps.check(tool)
        elif (kind := wanted_deps(tool)) is not None:
            raise UsageError(
                "bad-deps", f"{_wish(tool, kind)}, and the session has none; give its spec `SessionSpec(deps=…)`"
            )


def _refuse_misfit(tool: Tool, kind: object, deps: object) -> None:
    """Raise `UsageError` if *deps* are not of the *kind* that *tool* wants, as far as that can be told at run time."""
    cls = get_origin(kind) or kind
    try:
        fits = not isinstance(cls, type) or isinstance(deps, cls)
    except TypeError:  # a protocol that is not for run time
        return
    if not fits:
        raise UsageError(
            "bad-deps",
            f"{_wish(tool, kind)}, and found is a `{type_name(deps)}`; "
            "give `SessionSpec(deps=…)` such an object, or a function that returns one",
        )


def _wish(tool: Tool, kind: object) -> str:
    from agentrail.tools.annotations import name_of  # noqa: PLC0415 - only needed for errors

    return f"`{tool.spec.name}` wants `ToolContext[{name_of(kind)}]`"


def _facts(state: State) -> DepsWanted:
    """Return what a function that makes dependencies may know of the session *state*."""
    setup = state.setup
    return DepsWanted(state.session_id, setup.spec, setup.tenant, setup.owner, state.labels, setup.user_data)
