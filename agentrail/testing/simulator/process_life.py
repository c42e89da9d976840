"""Runs one life of the simulated process: opens a supervisor on the journal that earlier lives have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import trio
from trio.testing import MockClock

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.app.spec import SessionSpec
from agentrail.app.supervisor import Supervisor, open_supervisor
from agentrail.core.supervision_rules import Strategy
from agentrail.errors import (
    AgentrailError,
    BadPlugin,
    BadSpec,
    CommitUnknown,
    JournalUnavailable,
    LeftItsRow,
    ReplayDiffers,
    SupervisorFailed,
)
from agentrail.hooks.plugin import Attachable
from agentrail.runtime.actor.journal_log import rebuild_state
from agentrail.runtime.handle import SessionHandle
from agentrail.testing.simulator.callers import DOINGS, MEDDLING, SimulatedCaller
from agentrail.testing.simulator.environment import Environment, nobody
from agentrail.testing.simulator.fault_kinds import generator
from agentrail.testing.simulator.faulty_journal import FaultyJournal
from agentrail.testing.simulator.final_checks import begin_to_close, check_order, check_reports, comes_to_rest
from agentrail.testing.simulator.listeners import CheckingListener
from agentrail.testing.simulator.liveness import LivenessCheck
from agentrail.testing.simulator.specs import draw_spec
from agentrail.testing.world.choose import Choose
from agentrail.values.untrusted_values import leaves

CALLERS: Final = 4
STRATEGIES: Final[tuple[Strategy, ...]] = ("one_for_one", "one_for_one", "one_for_one", "one_for_all", "rest_for_one")


class ProcessGoneError(Exception):
    """Raised to end a life abruptly, as if its process had been killed."""


class Life:
    """One life of the simulated process, from the opening of its supervisor to its crash or end."""

    def __init__(
        self, environment: Environment, disk: MemoryJournal, number: int, plugins: Sequence[Attachable]
    ) -> None:
        self._environment = environment
        self._disk = disk
        self._number = number
        self._plugins = plugins
        self._choose = environment.choice("life", number)
        is_direct = disk.is_direct and environment.choice("direct").percent(40)  # in all lives, or in none
        submits = is_direct or environment.choice("submits", number).percent(70)
        self._journal = FaultyJournal(
            disk, environment.chaos, environment.auditor, number, submits=submits, is_direct=is_direct
        )
        self._handles: list[SessionHandle] = []
        self._busy = 0
        self._gone = False
        self.strategy: Strategy = self._choose.pick(STRATEGIES)
        self.max_restarts = self._choose.below(4)
        self.period = self._choose.pick((5.0, 2.0))
        self._by_name = environment.choice("by name", number).percent(50)

    async def run(self, clock: MockClock, *, seconds: float, last: bool, calm: bool) -> None:
        """Run a supervisor with callers and listeners for *seconds* of virtual time; close it, and check the rules.

        In the *last* life the process does not die. In a *calm* life the faults then stop and all sessions must rest.
        """
        environment = self._environment
        environment.verdict.note("life", self._number, self.strategy, self.max_restarts)
        environment.begin()
        broken = environment.verdict.broken = trio.Event()
        environment.doom = None if last else trio.Event()
        doom = trio.Event() if environment.doom is None else environment.doom
        try:
            async with open_supervisor(
                journal=self._journal,
                address="simulated",  # the next life must not have to wait for leases of this one
                seed=generator(environment.seed, "shell", self._number).randrange(2**32),
                strategy=self.strategy,
                max_restarts=self.max_restarts,
                period=self.period,
                specs=self._specs() if self._by_name else None,
                stop_within=None,  # no time limit, because tools that end late are checked until they have ended
            ) as supervisor:
                try:
                    await self._until(broken, doom, supervisor, clock, seconds, calm=calm)
                finally:
                    check_reports(environment, self, supervisor)
                self._dies(doom)
                begin_to_close(environment, supervisor)
            check_order(environment)
        except Exception as error:  # noqa: BLE001 - `_ended_by` judges each kind
            self._ended_by(error)
        finally:
            environment.verdict.broken = environment.doom = None

    def _specs(self) -> Mapping[str, Callable[[], SessionSpec]]:
        """Return the spec functions of sessions of earlier lives, by name.

        With these the supervisor brings the sessions back itself.
        """
        return {name: partial(self._built, name) for name in self._environment.stored()}

    def _built(self, session_id: str) -> SessionSpec:
        return draw_spec(self._environment, session_id, self._plugins)[0]

    def _dies(self, doom: trio.Event) -> None:
        """If the process is to die, stop its writes to the journal and raise `ProcessGoneError`."""
        if doom.is_set():
            self._journal.dead = self._gone = True
            raise ProcessGoneError

    def _ended_by(self, error: BaseException) -> None:
        for leaf in leaves(error):
            name = type(leaf).__name__
            self._environment.verdict.note("ends", name)
            fine = isinstance(leaf, ProcessGoneError | CommitUnknown) or (
                isinstance(leaf, SupervisorFailed) and self.strategy != "one_for_one"
            )
            rule = "outages" if isinstance(leaf, JournalUnavailable) else "crashes"
            self._environment.demand(fine, rule, "the supervisor ended with {}: {}", name, leaf)

    async def _until(
        self,
        broken: trio.Event,
        doom: trio.Event,
        supervisor: Supervisor,
        clock: MockClock,
        seconds: float,
        *,
        calm: bool,
    ) -> None:
        """Run callers and listeners until time is up, a rule is broken, or the process is to die."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the tasks of a life end with it
            for over in (broken, doom):
                nursery.start_soon(_ends, over, nursery.cancel_scope)
            nursery.start_soon(LivenessCheck(self._environment, supervisor).run)
            try:
                await self._play(nursery, supervisor, clock, seconds)
                if calm:
                    self._environment.chaos.calm = True
                    await comes_to_rest(self._environment, supervisor, lambda: self._busy == 0)
            finally:
                self._environment.meddle = (
                    nobody  # sessions outlive this nursery, and no meddler may start in it any more
                )
            nursery.cancel_scope.cancel()

    # Tasks of one life

    async def _play(self, nursery: trio.Nursery, supervisor: Supervisor, clock: MockClock, seconds: float) -> None:
        await self._check_kept()
        meddler = SimulatedCaller(self._environment, f"meddler {self._number}")

        def meddle(session_id: str) -> None:
            handle = next((handle for handle in self._handles if handle.id == session_id), None)
            if handle is not None:
                nursery.start_soon(self._once, meddler, handle)

        self._environment.meddle = meddle
        until = trio.current_time() + seconds
        for session_id in self._environment.stored():
            nursery.start_soon(self._comes_back, nursery, supervisor, session_id)
        for number in range(self._choose.number(1, 3)):
            nursery.start_soon(self._opens, nursery, supervisor, f"s{self._number}.{number}")
        for number in range(CALLERS):
            nursery.start_soon(
                self._talks, SimulatedCaller(self._environment, f"caller {self._number}.{number}"), until
            )
        nursery.start_soon(self._jumps, clock, until)
        await trio.sleep_until(until)

    async def _opens(self, nursery: trio.Nursery, supervisor: Supervisor, session_id: str) -> None:
        """Spawn a session after a while; check that its start is recorded, and start its listeners."""
        environment = self._environment
        choose = environment.choice("spawn", session_id)
        await trio.sleep(choose.below(2000) / 1000)
        spec, budget = draw_spec(environment, session_id, self._plugins)
        environment.expect(session_id, budget)
        try:
            handle = await supervisor.spawn(
                spec, session_id, restart=choose.pick(("transient", "transient", "temporary"))
            )
        except (BadPlugin, BadSpec):
            raise  # the simulator's own spec is wrong; otherwise a run without sessions would pass all checks
        except AgentrailError as refused:
            environment.verdict.note("spawn", session_id, type(refused).__name__)
            return
        environment.demand(
            environment.auditor.book(session_id).seq > 0, "acknowledged", "`{}` is there, and not written", session_id
        )
        self._is_there(nursery, supervisor, handle, choose)

    async def _comes_back(self, nursery: trio.Nursery, supervisor: Supervisor, session_id: str) -> None:
        """Resume a session of an earlier life after a while, and start its listeners."""
        environment = self._environment
        choose = environment.choice("return", session_id, self._number)
        await trio.sleep(choose.below(500) / 1000)
        spec, _ = draw_spec(environment, session_id, self._plugins)
        environment.doings["return"] += 1
        recovery: Literal["continue", "pause"] = choose.pick(("continue", "continue", "pause"))
        await self._erases(supervisor, session_id)
        try:
            handle = await supervisor.resume(session_id, spec, recovery=recovery)
        except AgentrailError as refused:
            environment.demand(
                not isinstance(refused, LeftItsRow | ReplayDiffers), "kept", "`{}`: {}", session_id, refused
            )
            environment.verdict.note("return", session_id, type(refused).__name__)
            return
        environment.demand(
            not environment.auditor.book(session_id).deleted, "erased", "`{}` was deleted, and came back", session_id
        )
        environment.verdict.note("return", session_id, recovery)
        self._is_there(nursery, supervisor, handle, choose)

    async def _erases(self, supervisor: Supervisor, session_id: str) -> None:
        """If a fault fires, delete or redact a session; a refusal is fine if it runs again or has open work."""
        environment = self._environment
        try:
            if environment.fires("sessions_redacted"):
                await supervisor.redact(session_id, by="simulated")
            if environment.fires("sessions_deleted"):
                await supervisor.delete(session_id)
        except AgentrailError as refused:
            environment.verdict.note("erase", session_id, type(refused).__name__)

    def _is_there(self, nursery: trio.Nursery, supervisor: Supervisor, handle: SessionHandle, choose: Choose) -> None:
        self._handles.append(handle)
        for number in range(choose.number(1, 2)):
            nursery.start_soon(CheckingListener(self._environment, supervisor, handle, f"listener {number}").run)

    async def _talks(self, caller: SimulatedCaller, until: float) -> None:
        self._busy += 1
        temper = self._environment.temper
        doings = tuple((doing.weight, doing) for doing in DOINGS if doing.name not in temper.left_out)
        while True:
            pause = caller.choose.pick((0, 20, 100, 400)) * (1 + caller.choose.below(100) / 100) / 1000
            await trio.sleep(temper.pace * pause)
            if trio.current_time() >= until:
                break
            if self._handles:
                handle = caller.choose.pick(self._handles)
                await caller.do(caller.choose.weighted(doings), handle)
        self._busy -= 1

    async def _once(self, meddler: SimulatedCaller, handle: SessionHandle) -> None:
        self._busy += 1
        await meddler.do(meddler.choose.pick(MEDDLING), handle)
        self._busy -= 1

    async def _jumps(self, clock: MockClock, until: float) -> None:
        while trio.current_time() < until:
            await trio.sleep(0.37)
            if self._environment.fires("clock_jumps"):
                clock.jump(self._choose.number(1, 9000) / 1000)

    # Earlier lives

    async def _check_kept(self) -> None:
        """Check that the journal has all records of earlier lives' sessions, and that they fold to the same states."""
        for session_id in self._environment.stored():
            book = self._environment.auditor.book(session_id)
            # Read before the journal, because a session that the supervisor has resumed may write meanwhile
            expected, records, seq = book.state, book.records, book.seq
            state, head, *_ = await rebuild_state(self._disk, session_id, records)
            is_whole = (
                head == records and state.last_seq == seq and expected is not None and state.history == expected.history
            )
            self._environment.demand(is_whole, "kept", "`{}` has {} records of {}", session_id, head, records)


async def _ends(over: trio.Event, scope: trio.CancelScope) -> None:
    await over.wait()
    scope.cancel()
