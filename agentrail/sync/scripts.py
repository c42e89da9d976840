"""`open_supervisor` and `run_sync` for scripts and notebooks."""

from __future__ import annotations

import atexit
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from agentrail.app.supervisor import SEVERAL
from agentrail.app.supervisor import open_supervisor as trio_open_supervisor
from agentrail.bridge.bridge_reader import followed
from agentrail.bridge.handle_parts import stop_orphan
from agentrail.bridge.host_loop import HostLoop, OwnLoop
from agentrail.bridge.trio_thread import TrioThread
from agentrail.sync.blocking_handles import Supervisor
from agentrail.values.argument_checks import checked

if TYPE_CHECKING:
    from agentrail.api.session_values import Reply
    from agentrail.app.model_registry import Factory
    from agentrail.app.spec import SessionSpec, Specs
    from agentrail.app.supervisor import Supervisor as TrioSupervisor
    from agentrail.ports.instrumentation import Telemetry
    from agentrail.ports.journal import Journal, Retention
    from agentrail.values.content import PromptContent
    from agentrail.values.events.envelope import Envelope
    from agentrail.values.json import Json, JsonObject
    from agentrail.values.usage import Limit

T = TypeVar("T")

OnEvent: TypeAlias = "Callable[[Envelope], None]"


class RootSupervisor(Supervisor):
    """The supervisor that was opened: `with` it, or close it later; the end of the program closes it too."""

    __slots__ = ()

    def close(self) -> None:
        """Stop or park all children, as leaving the `with` does, and end the Trio thread. No-op if it is closed."""
        atexit.unregister(self._thread.close_at_exit)
        self._thread.close_blocking()

    @overload
    def run(
        self, prompt: PromptContent, spec: SessionSpec, *, returns: None = None, on_event: OnEvent | None = None
    ) -> Reply: ...

    @overload
    def run(
        self, prompt: PromptContent, spec: SessionSpec, *, returns: TypeForm[T], on_event: OnEvent | None = None
    ) -> T: ...

    @overload
    def run(
        self, prompt: PromptContent, spec: SessionSpec, *, returns: Mapping[str, Json], on_event: OnEvent | None = None
    ) -> JsonObject: ...

    def run(
        self, prompt: PromptContent, spec: SessionSpec, *, returns: object = None, on_event: OnEvent | None = None
    ) -> object:
        """Start a session, and ask it *prompt* as `ask` does; the session goes on.

        *on_event* is called with each event of the session until then, in the thread of the caller. What it raises
        cancels the call.
        """
        handle = self._thread.call_blocking(partial(self._supervisor.spawn, spec), undo=stop_orphan)
        ask = partial(cast("Callable[..., Awaitable[object]]", handle.ask), prompt, returns=returns)
        if on_event is None:
            return self._thread.call_blocking(ask)
        return followed(self._thread, handle, ask, on_event)

    def __enter__(self) -> Self:
        """Return the supervisor, which is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the supervisor."""
        try:
            self.close()
        except BaseException as failure:
            if error is None or isinstance(error, KeyboardInterrupt):
                raise
            raise BaseExceptionGroup(SEVERAL, [error, failure]) from None  # noqa: ASYNC104 - it holds what was caught


def opened(opening: AbstractAsyncContextManager[TrioSupervisor], stop_within: float | None) -> RootSupervisor:
    """Open the supervisor in a Trio thread; code that is marked for asyncio gets a loop in another thread."""
    thread = cast("TrioThread[object]", TrioThread(opening, stop_within))
    thread.host = HostLoop(OwnLoop(), thread.post, thread.call)
    supervisor = RootSupervisor(thread, cast("TrioSupervisor", thread.open_blocking()))
    atexit.register(thread.close_at_exit)
    return supervisor


# [[[cog
# from docs.printing.mirrors import blocking, opening
# from tests.docs.sources import SOURCE
# cog.outl(blocking(opening(SOURCE, "RootSupervisor", "opened")))
# ]]]
@checked
def open_supervisor(
    *,
    strategy: Literal["one_for_one", "one_for_all", "rest_for_one"] = "one_for_one",
    max_restarts: int = 3,
    period: float = 5.0,
    journal: Journal | None = None,
    models: Mapping[str, Factory] | None = None,
    secrets: Callable[[str], str | None] | None = None,
    seed: int | None = None,
    gate_width: float | None = None,
    limits: Mapping[str, Limit] | None = None,
    specs: Specs | None = None,
    retain: Sequence[Retention] = (),
    stop_within: float | None = 10.0,
    address: str | None = None,
    lease: float = 30.0,
    cluster: bool | frozenset[int] = False,
    telemetry: Telemetry | None = None,
) -> RootSupervisor:
    """Open a supervisor; leaving the `with` stops all its children, the youngest first.

    When a child crashes, *strategy* says which other children are restarted too. After more than *max_restarts* in
    *period* seconds the supervisor fails: the `with` raises `SupervisorFailed`. Restarts of each session are
    counted separately, unless the strategy ties sessions to others.

    *models* are factories by the part of a model's name before the colon. *secrets* looks up a secret by its name when
    one is needed; the default is the environment. *limits* are rate limits by the part of a model's name before the
    colon, for all sessions together, for each key and region: a request over a limit waits, and sessions take turns.

    With a *journal*, sessions that still run when the supervisor ends are parked in it, and `resume` goes on
    with them, in this process or another. *specs* are functions that build specifications, by name; they may be async,
    and one that takes an argument is told of the session (`SpecWanted`). One function in their place is for any name.
    With them, stored sessions that had work under way are resumed at once, and those that wait for a timer when it is
    due.

    *retain* says which sessions are deleted from the journal, by when they ended and by a label: at once and then each
    hour, at most ten a second, in the background. Without it, none is.

    Several supervisors may share a journal that allows it. Each holds its sessions by leases of *lease* seconds, which
    it renews; one that dies loses its sessions to others after that time, or at once to a supervisor that is opened
    with the same *address*. Errors tell the address to who looks for a session elsewhere; by default, it is made up.
    With *cluster* they notice it when one has died, and what it leaves is shared out: each brings back a part of the
    sessions that had work under way or wait for a timer, and deletes a part of the old ones. All of them need it.
    If something else places them, *cluster* is the slots that this one looks after (`journal.slot_of`).

    *telemetry* exports what the sessions do, such as `agentrail.telemetry.OpenTelemetry()`.
    """
    return opened(
        trio_open_supervisor(
            strategy=strategy,
            max_restarts=max_restarts,
            period=period,
            journal=journal,
            models=models,
            secrets=secrets,
            seed=seed,
            gate_width=gate_width,
            limits=limits,
            specs=specs,
            retain=retain,
            stop_within=stop_within,
            address=address,
            lease=lease,
            cluster=cluster,
            telemetry=telemetry,
        ),
        stop_within,
    )


# [[[end]]]


@overload
def run_sync(
    prompt: PromptContent, spec: SessionSpec, *, returns: None = None, on_event: OnEvent | None = None
) -> Reply: ...


@overload
def run_sync(
    prompt: PromptContent, spec: SessionSpec, *, returns: TypeForm[T], on_event: OnEvent | None = None
) -> T: ...


@overload
def run_sync(
    prompt: PromptContent, spec: SessionSpec, *, returns: Mapping[str, Json], on_event: OnEvent | None = None
) -> JsonObject: ...


@checked
def run_sync(
    prompt: PromptContent, spec: SessionSpec, *, returns: object = None, on_event: OnEvent | None = None
) -> object:
    """Open a supervisor, start a session, and ask it *prompt*; all is closed then.

    What it returns is the reply, or with *returns*, a type or a JSON Schema, such an object.

    *on_event* is called with each event of the session until then, in the thread of the caller. What it raises
    cancels the call.
    """
    with open_supervisor() as supervisor:
        return cast("Callable[..., object]", supervisor.run)(prompt, spec, returns=returns, on_event=on_event)
