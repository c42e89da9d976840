"""`open_supervisor` for programs on asyncio: by `async with`, or by `await`, as in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Never, cast

from agentrail.aio.handles import Supervisor
from agentrail.app.supervisor import open_supervisor as trio_open_supervisor
from agentrail.bridge.bridge_reader import AsyncBody
from agentrail.bridge.trio_thread import TrioThread
from agentrail.errors import NotOpened
from agentrail.values.argument_checks import checked

if TYPE_CHECKING:
    from agentrail.app.model_registry import Factory
    from agentrail.app.spec import Specs
    from agentrail.app.supervisor import Supervisor as TrioSupervisor
    from agentrail.ports.instrumentation import Telemetry
    from agentrail.ports.journal import Journal, Retention
    from agentrail.values.usage import Limit


class RootSupervisor(Supervisor):
    """The supervisor that was opened: it can be closed, if no `async with` does so."""

    __slots__ = ()

    async def close(self) -> None:
        """Stop or park all children, as leaving the `async with` does, and end the Trio thread. No-op if closed."""
        await self._thread.close()


class SupervisorOpening:
    """What `open_supervisor` returns: `async with` it, or `await` it and close the supervisor later."""

    def __init__(self, opening: AbstractAsyncContextManager[TrioSupervisor], stop_within: float | None) -> None:
        self._body = AsyncBody(TrioThread(opening, stop_within))

    if not TYPE_CHECKING:  # hidden from type checkers, which report these uses as errors

        def __getattr__(self, name: str) -> Never:
            """Raise `NotOpened` for a name of a supervisor, which is there once it is open."""
            if hasattr(Supervisor, name) and not name.startswith("_"):
                raise NotOpened(name, "aio.open_supervisor", "supervisor", "")
            message = f"`aio.open_supervisor()` has no `{name}`"
            raise AttributeError(message)

    async def _open(self) -> RootSupervisor:
        thread = self._body.thread
        return RootSupervisor(cast("TrioThread[object]", thread), await thread.open())

    def __await__(self) -> Generator[object, None, RootSupervisor]:
        return self._open().__await__()

    async def __aenter__(self) -> RootSupervisor:
        """Open the supervisor."""
        supervisor = await self._body.enter()
        return RootSupervisor(cast("TrioThread[object]", self._body.thread), supervisor)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the supervisor."""
        await self._body.leave(error)  # noqa: ASYNC102 - it bounds its own time, and ends before it is cancelled


# [[[cog
# from docs.printing.mirrors import opening
# from tests.docs.sources import SOURCE
# cog.outl(opening(SOURCE, "SupervisorOpening", "SupervisorOpening"))
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
) -> SupervisorOpening:
    """Open a supervisor; leaving the `async with` stops all its children, the youngest first.

    When a child crashes, *strategy* says which other children are restarted too. After more than *max_restarts* in
    *period* seconds the supervisor fails: the `async with` raises `SupervisorFailed`. Restarts of each session are
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
    return SupervisorOpening(
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
