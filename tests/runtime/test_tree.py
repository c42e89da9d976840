"""Services and supervisors as children: readiness, restarts by strategy, escalation, order, and names."""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
import trio

from agentrail import ChildView, SessionDown, SessionHandle, Supervisor, open_supervisor
from agentrail.app.supervisor import Restart
from agentrail.core.supervision_rules import Strategy
from agentrail.errors import (
    AgentrailError,
    BadChoice,
    CommitUnknown,
    NotReady,
    SessionCrashed,
    StartTooSlow,
    SupervisorClosed,
    SupervisorFailed,
    UnknownChild,
    UsageError,
)
from agentrail.journals import Claim, Record
from agentrail.runtime.supervision.children import ServiceFunction
from agentrail.testing import ScriptedModel, stall
from tests.coded import coded
from tests.runtime.journals import TestJournal
from tests.runtime.test_restarting import times
from tests.runtime.test_supervisor import tasks
from tests.runtime.world import open_world, settle, spec_of, until


class Part:
    """A service that notes its starts and its cancellation, and raises when told."""

    def __init__(self, name: str, texts: list[str]) -> None:
        self.name = name
        self.said = texts
        self.breaking = trio.Event()

    async def __call__(self) -> None:
        self.said.append(f"+{self.name}")
        self.breaking = trio.Event()
        try:
            await self.breaking.wait()
            raise ValueError(self.name)
        except trio.Cancelled:
            self.said.append(f"-{self.name}")
            raise


async def three(supervisor: Supervisor, texts: list[str], **options: Restart) -> list[Part]:
    parts = [Part(name, texts) for name in "abc"]
    for part in parts:
        await supervisor.start_service(part, part.name, restart=options.get(part.name, "permanent"))
    await settle()
    texts.clear()
    return parts


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("one_for_one", ["+b"]),
        ("rest_for_one", ["-c", "+b", "+c"]),
        ("one_for_all", ["-c", "-a", "+a", "+b", "+c"]),
    ],
)
async def test_the_strategy_says_who_is_started_again(strategy: Strategy, expected: list[str]) -> None:
    texts: list[str] = []
    async with open_supervisor(strategy=strategy) as supervisor:
        parts = await three(supervisor, texts)
        parts[1].breaking.set()
        await settle()
        assert texts == expected
        texts.clear()
    assert texts == ["-c", "-b", "-a"]


async def test_temporary_children_of_a_group_are_stopped_and_not_started() -> None:
    texts: list[str] = []
    async with open_supervisor(strategy="one_for_all") as supervisor:
        parts = await three(supervisor, texts, a="temporary")
        parts[1].breaking.set()
        await settle()
        assert texts == ["-c", "-a", "+b", "+c"]
        assert [child.name for child in supervisor.tree().children] == ["b", "c"]


async def test_too_many_crashes_come_out_of_the_root() -> None:
    texts: list[str] = []

    async def body() -> None:
        async with open_supervisor(max_restarts=2) as supervisor:
            parts = await three(supervisor, texts)
            for _ in range(3):
                parts[0].breaking.set()
                await settle()
            await trio.sleep_forever()

    with pytest.raises(SupervisorFailed) as failed:
        await body()
    assert failed.value == SupervisorFailed("the root", "ValueError: a")
    assert isinstance(failed.value.__cause__, ValueError)
    assert texts == ["+a", "+a", "-c", "-b"]


async def test_a_service_that_only_returns_is_named_with_what_to_do() -> None:
    async def over() -> None:
        await trio.sleep(0.1)

    async def body() -> None:
        async with open_supervisor(max_restarts=2) as supervisor:
            await supervisor.start_service(over, "over")
            await trio.sleep(100)

    with pytest.raises(SupervisorFailed, match="EndedTooOften: `over` has ended too often, without an error; let it"):
        await body()


@pytest.mark.parametrize(("raises", "why"), [(True, "ValueError: brief"), (False, "EndedTooOften: `brief`")])
async def test_a_child_that_ends_before_it_is_ready_again_fails_its_supervisor(raises: bool, why: str) -> None:
    begun: list[float] = []

    async def brief(task_status: trio.TaskStatus[None]) -> None:
        begun.append(trio.current_time())
        if len(begun) == 1:
            task_status.started()
            await trio.sleep_forever()
        await trio.sleep(1)
        if raises:
            raise ValueError("brief")

    async def body() -> None:
        async with open_supervisor(max_restarts=1) as root:
            below = await root.start_supervisor("below", max_restarts=0)
            await below.start_service(brief, "brief")
            part = Part("a", [])
            await below.start_service(part, "a")
            await settle()
            part.breaking.set()
            await trio.sleep(100)

    with pytest.raises(SupervisorFailed, match=why):
        await body()
    assert len(begun) == 2


async def test_a_child_that_is_stopped_before_it_is_ready_again_holds_up_no_other() -> None:
    begun: list[float] = []

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        begun.append(trio.current_time())
        if len(begun) > 1:
            await trio.sleep(10)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor(strategy="one_for_all") as supervisor:
        part, texts = Part("a", []), list[str]()
        await supervisor.start_service(part, "a")
        await supervisor.start_service(slow, "slow")
        part.said = texts
        part.breaking.set()
        await trio.sleep(1)
        await supervisor.stop_child("slow")
        part.breaking.set()
        await trio.sleep(1)
        assert texts == ["+a", "+a"]
        assert [child.name for child in supervisor.tree().children] == ["a"]


async def test_a_restart_counts_for_the_period_and_no_longer() -> None:
    texts: list[str] = []
    async with open_supervisor(max_restarts=1, period=5) as supervisor:
        parts = await three(supervisor, texts)
        for _ in range(4):
            parts[0].breaking.set()
            await trio.sleep(5.01)
        assert texts == ["+a"] * 4


async def test_a_supervisor_that_fails_is_started_again_with_its_children() -> None:
    texts: list[str] = []
    async with open_supervisor() as root:
        below = await root.start_supervisor("below", max_restarts=0)
        parts = await three(below, texts)
        parts[0].breaking.set()
        await settle()
        assert texts == ["-c", "-b", "+a", "+b", "+c"]
        reports = [(report.path, report.kind, report.done) for report in root.crashes()]
        assert reports == [
            (("below", "a"), "service", "failed"),
            (("below",), "supervisor", "restarted"),
        ]
        cause = root.crashes()[1].reason.cause
        assert cause is not None
        assert cause.text == "ValueError: a"
        services = tuple(ChildView(name, "service", "running", "permanent", 1) for name in "abc")
        below_view = ChildView("below", "supervisor", "running", "permanent", 1, children=services)
        assert root.tree() == ChildView("", "supervisor", "running", "permanent", children=(below_view,))


async def test_a_session_lives_on_when_its_supervisor_is_started_again() -> None:
    async with open_world() as world:
        texts: list[str] = []
        below = await world.supervisor.start_supervisor("below", strategy="one_for_all")
        world.supervisor, root = below, world.supervisor
        session = await world.spawn(["fine"], "mine")
        part = Part("a", texts)
        await below.start_service(part, "a")
        await settle()
        part.breaking.set()
        await settle()
        assert world.heard(session).names == ["SessionStarted", "SessionRestarted"]
        assert (await session.ask("go")).text == "fine"
        world.supervisor = root


async def test_a_session_of_a_group_that_crashes_too_often_fails_its_supervisor() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        below = await world.supervisor.start_supervisor("below", strategy="one_for_all", max_restarts=1)
        world.supervisor, root = below, world.supervisor
        session = await world.spawn(["fine"] * 2, "mine")
        for text in ("go", "go on"):
            journal.failing = times(1)
            assert (await session.ask(text)).text == "fine"
        assert [report.done for report in root.crashes()] == ["restarted", "failed", "restarted"]
        world.supervisor = root


async def test_a_service_says_when_it_is_ready_or_is_too_slow() -> None:
    async def slow(task_status: trio.TaskStatus[None]) -> None:
        await trio.sleep(3)
        task_status.started()
        await trio.sleep_forever()

    async def broken() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("no")

    async with open_supervisor() as supervisor:
        old_time = trio.current_time()
        await supervisor.start_service(slow, "slow", start_timeout=4)
        assert trio.current_time() == old_time + 3
        with pytest.raises(StartTooSlow) as late:
            await supervisor.start_service(slow, "late", start_timeout=2)
        assert late.value == StartTooSlow("late", 2)
        assert [child.name for child in supervisor.tree().children] == ["slow"]
        with pytest.raises(UsageError, check=coded("child-exists")):
            await supervisor.start_service(slow, "slow")
        await supervisor.stop_child("slow")
        assert supervisor.tree().children == ()
        with pytest.raises(UnknownChild):
            await supervisor.stop_child("slow")


async def never_ready(task_status: trio.TaskStatus[None]) -> None:  # noqa: ARG001 - it never calls it
    await trio.sleep_forever()


async def returns(task_status: trio.TaskStatus[None]) -> None:  # noqa: ARG001 - it never calls it
    await trio.sleep(1)


@pytest.mark.parametrize("service", [never_ready, returns])
async def test_whoever_starts_a_service_that_ends_before_it_is_ready_is_told_so(service: ServiceFunction) -> None:
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:

        async def start() -> None:
            with pytest.raises(NotReady, match="`one` ended before it was ready"):
                await supervisor.start_service(service, "one", start_timeout=1000.0)

        nursery.start_soon(start)
        await trio.sleep(0.5)
        if service is never_ready:
            await supervisor.stop_child("one")
        with trio.fail_after(2):
            await trio.sleep(1)
            assert nursery.child_tasks == frozenset()
        assert supervisor.tree().children == ()


async def test_whoever_starts_a_service_waits_on_if_its_group_is_started_again_meanwhile() -> None:
    begun: list[float] = []

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        begun.append(trio.current_time())
        await trio.sleep(3)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor(strategy="one_for_all") as supervisor, trio.open_nursery() as nursery:
        part = Part("a", [])
        await supervisor.start_service(part, "a")
        began = trio.current_time()

        async def breaks() -> None:
            await trio.sleep(1)
            part.breaking.set()

        nursery.start_soon(breaks)
        with trio.fail_after(100):
            await supervisor.start_service(slow, "slow")
        assert [time - began for time in (*begun, trio.current_time())] == [0, 1, 4]


async def test_a_service_that_raises_a_cancellation_that_it_kept_is_started_again() -> None:
    remaining: list[trio.Cancelled] = []
    starts: list[float] = []

    async def odd() -> None:
        starts.append(trio.current_time())
        if remaining:
            raise remaining.pop()
        await trio.sleep_forever()

    with trio.move_on_after(0):
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            remaining.append(cancelled)
    async with open_supervisor() as supervisor:
        await supervisor.start_service(odd, "odd")
        await trio.sleep(10)
        assert len(starts) == 2
        assert [crash.reason.kind for crash in supervisor.crashes()] == ["Cancelled"]


async def test_an_interrupt_in_a_service_ends_the_program_and_starts_nothing_again() -> None:
    runs: list[bool] = []

    async def service() -> None:
        runs.append(True)
        await trio.sleep(1)
        raise KeyboardInterrupt

    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True, allow_unwrapped=True):
        async with open_supervisor() as supervisor:
            await supervisor.start_service(service, "mine")
            await trio.sleep(10)
    assert runs == [True]


async def test_whoever_does_not_end_in_time_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(20)

    texts: list[str] = []
    async with open_supervisor(stop_within=None) as supervisor:
        await three(supervisor, texts)
        await supervisor.start_service(stubborn, "stubborn", shutdown=2)
        await settle()
        start = trio.current_time()
    assert texts == ["-c", "-b", "-a"]
    assert trio.current_time() == start + 20
    assert "service stubborn ignores its cancellation and is left behind" in caplog.text


async def test_a_child_that_ends_too_late_for_a_restart_is_started_again_when_it_has_ended() -> None:
    begun: list[float] = []
    crashes: list[float] = []

    async def late() -> None:
        begun.append(trio.current_time())
        if len(begun) == 1:
            with trio.CancelScope(shield=True):
                await trio.sleep(20)
        await trio.sleep_forever()

    async def breaking() -> None:
        if not crashes:
            await trio.sleep(1)
            crashes.append(trio.current_time())
            raise ValueError
        await trio.sleep_forever()

    async with open_supervisor(strategy="one_for_all") as supervisor:
        await supervisor.start_service(late, "late", shutdown=5.0)
        await supervisor.start_service(breaking, "breaking")
        began = trio.current_time()
        await trio.sleep(19)
        assert [child.state for child in supervisor.tree().children] == ["stuck", "running"]
        await trio.sleep(11)
        assert [time - began for time in begun] == [0, 20]
        assert [child.state for child in supervisor.tree().children] == ["running", "running"]


async def test_a_child_that_still_runs_when_its_supervisor_is_started_again_runs_once() -> None:
    running: list[int] = []
    begun: list[float] = []

    async def late() -> None:
        begun.append(trio.current_time())
        running.append(running[-1] + 1 if running else 1)
        try:
            with trio.CancelScope(shield=True):
                await trio.sleep(20 if len(begun) == 1 else 0)
            await trio.sleep_forever()
        finally:
            running.append(running[-1] - 1)

    async with open_supervisor() as root:
        below = await root.start_supervisor("below", max_restarts=0)
        await below.start_service(late, "late", shutdown=5.0)
        part = Part("a", [])
        await below.start_service(part, "a")
        await settle()
        part.breaking.set()
        await trio.sleep(30)
        assert [time - begun[0] for time in begun] == [0, 20]
        assert max(running) == 1
        (shown_child,) = root.tree().children
        assert [child.state for child in shown_child.children] == ["running", "running"]


async def slow_to_stop() -> None:
    """Take 30 seconds to end."""
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(30)


async def test_a_child_that_ends_late_while_others_are_stopped_is_started_again_with_them() -> None:
    begun: list[float] = []

    async def late() -> None:
        begun.append(trio.current_time())
        with trio.CancelScope(shield=True):
            await trio.sleep(20 if len(begun) == 1 else 0)
        await trio.sleep_forever()

    async with open_supervisor(stop_within=None) as root:
        below = await root.start_supervisor("below", max_restarts=0)
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        part = Part("a", [])
        await below.start_service(part, "a")
        await below.start_service(late, "late", shutdown=5.0)
        await settle()
        part.breaking.set()
        await trio.sleep(40)
        assert [time - begun[0] for time in begun] == [0, 5 + 30]


async def test_a_child_that_crashes_while_those_after_it_are_stopped_is_not_started_again() -> None:
    texts: list[str] = []
    async with open_supervisor(stop_within=None) as root:
        below = await root.start_supervisor("below")
        part = Part("a", texts)
        await below.start_service(part, "a")
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(root.stop_child, "below")
            await settle()
            part.breaking.set()
        assert texts == ["+a"]
        assert [(report.path, report.done) for report in root.crashes()] == [(("below", "a"), "given_up")]


async def test_a_child_that_crashes_while_its_group_is_stopped_is_started_once() -> None:
    begun: list[str] = []

    def service(name: str, crashes_after: float, stops_in: float) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            begun.append(name)
            try:
                await trio.sleep(crashes_after if begun.count(name) == 1 else math.inf)
                raise ValueError(name)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(stops_in)

        return run

    async with open_supervisor(strategy="one_for_all") as supervisor:
        await supervisor.start_service(service("first", 1, 0), "first")
        await supervisor.start_service(service("second", 2, 0), "second")
        await supervisor.start_service(service("slow", math.inf, 3), "slow")
        await trio.sleep(100)
        assert begun == ["first", "second", "slow"] * 2
        assert [child.restarts for child in supervisor.tree().children] == [1, 1, 1]
        assert [(report.path, report.done) for report in supervisor.crashes()] == [
            (("first",), "restarted"),
            (("second",), "restarted"),
        ]


async def test_whoever_was_stopped_for_good_and_ends_late_is_not_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lives = 0

    async def stubborn() -> None:
        nonlocal lives
        lives += 1
        with trio.CancelScope(shield=True):
            await trio.sleep(20)

    async with open_supervisor() as supervisor:
        await supervisor.start_service(stubborn, "stubborn", shutdown=2)
        start = trio.current_time()
        await supervisor.stop_child("stubborn")
        assert trio.current_time() == start + 2
        assert supervisor.tree().children == ()
        await trio.sleep(30)
        assert lives == 1
    assert trio.current_time() == start + 32
    assert "service stubborn ignores its cancellation and is left behind" in caplog.text


async def test_a_child_that_is_stopped_for_good_while_others_are_stopped_with_it_is_gone() -> None:
    texts: list[str] = []

    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)

    async with open_supervisor(strategy="one_for_all") as supervisor:
        parts = await three(supervisor, texts)
        await supervisor.start_service(slow, "slow")
        parts[1].breaking.set()
        await trio.sleep(0.5)
        await supervisor.stop_child("a")
        await trio.sleep(1)
        assert texts == ["-a", "-c", "+b", "+c"]
        assert [child.name for child in supervisor.tree().children] == ["b", "c", "slow"]


async def test_a_session_that_ends_while_it_is_stopped_with_others_is_not_started_again() -> None:
    class Writing(TestJournal):
        """A journal that is not cancelled while it writes."""

        async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
            with trio.CancelScope(shield=True):
                await super().append(claim, expected, records)
            return expected + len(records)

    journal = Writing()
    async with open_supervisor(strategy="one_for_all", journal=journal) as supervisor, trio.open_nursery() as nursery:
        parts = await three(supervisor, [])
        session = await supervisor.spawn(spec_of(ScriptedModel()), "s")
        journal.commit = 1.0
        nursery.start_soon(session.stop)
        await trio.sleep(0.5)
        parts[0].breaking.set()
        await trio.sleep(100)
        assert [child.name for child in supervisor.tree().children] == ["a", "b", "c"]
        assert [report.path for report in supervisor.crashes()] == [("a",)]
        (stored,) = await supervisor.stored()
        assert (stored.head, stored.ended) == (2, True)


async def test_a_group_that_is_stopped_while_it_is_started_again_leaves_no_task() -> None:
    """`slow_to_stop` holds up the end of the supervisor until the child that is not ready yet has crashed."""
    crashes: list[float] = []

    async def crashing(task_status: trio.TaskStatus[None]) -> None:
        if crashes:
            await trio.sleep(10)
        else:
            task_status.started()
            await trio.sleep(1)
        crashes.append(trio.current_time())
        raise ValueError("crashing")

    async with open_supervisor(stop_within=None) as root:
        old_tasks = tasks()
        below = await root.start_supervisor("below", strategy="one_for_all")
        await below.start_service(crashing, "crashing")
        await below.start_service(trio.sleep_forever, "other")
        await trio.sleep(2)
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        await root.stop_child("below")
        await settle()
        assert len(crashes) == 2
        assert tasks() == old_tasks


async def test_a_group_that_rests_starts_no_child_again() -> None:
    """The child `late` is stopped before it is ready, and is ready nonetheless, as its start is shielded."""
    texts: list[str] = []
    starts: list[float] = []

    async def late(task_status: trio.TaskStatus[None]) -> None:
        texts.append("+late")
        starts.append(trio.current_time())
        if len(starts) == 2:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
        task_status.started()
        await trio.sleep(1 if len(starts) == 1 else math.inf)
        raise ValueError("late")

    async with open_supervisor(strategy="one_for_all") as root:
        below = await root.start_supervisor("below", strategy="one_for_all")
        await below.start_service(late, "late")
        await below.start_service(Part("b", texts), "b")
        part = Part("a", texts)
        await root.start_service(part, "a")
        await trio.sleep(2)
        part.breaking.set()
        await trio.sleep(10)
        assert texts == ["+late", "+b", "+a", "-b", "+late", "+late", "+b", "+a"]
        texts.clear()
    assert texts == ["-a", "-b"]


async def test_a_child_that_is_left_behind_before_it_is_ready_holds_up_no_other() -> None:
    texts: list[str] = []
    starts: list[float] = []
    part = Part("a", texts)

    async def stubborn(task_status: trio.TaskStatus[None]) -> None:
        texts.append("+stubborn")
        starts.append(trio.current_time())
        if len(starts) == 2:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        await root.start_service(part, "a")
        await root.start_service(stubborn, "stubborn", shutdown=2.0)
        await settle()
        texts.clear()
        part.breaking.set()
        await trio.sleep(1)
        await root.stop_child("stubborn")
        await settle()
        part.breaking.set()
        await trio.sleep(1)
        assert texts == ["+a", "+stubborn", "+a"]


async def test_a_child_that_two_tasks_stop_takes_no_later_one_of_its_name_with_it() -> None:
    async with open_supervisor() as root, trio.open_nursery() as nursery:

        async def replace() -> None:
            await root.stop_child("a")
            if not replaced:
                replaced.append(True)
                await root.start_service(trio.sleep_forever, "a")

        replaced: list[bool] = []
        await root.start_service(slow_to_stop, "a", shutdown=100.0)
        nursery.start_soon(replace)
        nursery.start_soon(replace)
        await trio.sleep(100)
        assert [child.name for child in root.tree().children] == ["a"]


async def test_a_child_that_crashes_while_its_supervisor_rests_is_started_again_with_it() -> None:
    texts: list[str] = []
    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        below = await root.start_supervisor("below")
        parts = await three(below, texts, b="transient", c="temporary")
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        part = Part("part", texts)
        await root.start_service(part, "part")
        await settle()
        texts.clear()
        part.breaking.set()
        await settle()
        for part_ in parts:
            part_.breaking.set()
        await trio.sleep(100)
        assert texts == ["+a", "+b", "+part"]
        crashes = {report.path: report.done for report in root.crashes()}
        assert crashes == {
            ("part",): "restarted",
            ("below", "a"): "restarted",
            ("below", "b"): "restarted",
            ("below", "c"): "given_up",
        }
        (visible, _) = root.tree().children
        assert [(child.name, child.state) for child in visible.children] == [
            ("a", "running"),
            ("b", "running"),
            ("slow", "running"),
        ]


async def test_a_supervisor_that_fails_while_the_one_above_rests_is_started_again_with_it() -> None:
    texts: list[str] = []
    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        below = await root.start_supervisor("below")
        deepest = await below.start_supervisor("deepest", max_restarts=0)
        parts = await three(deepest, texts)
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        part = Part("part", texts)
        await root.start_service(part, "part")
        await settle()
        texts.clear()
        part.breaking.set()
        await settle()
        parts[0].breaking.set()
        await trio.sleep(100)
        assert texts == ["-c", "-b", "+a", "+b", "+c", "+part"]


@pytest.mark.parametrize("moment", ["its group is stopped", "its supervisor rests"])
async def test_a_transient_child_that_returns_while_others_are_stopped_is_over(moment: str) -> None:
    starts: list[float] = []

    async def brief() -> None:
        starts.append(trio.current_time())
        await trio.sleep(10)

    part = Part("part", [])
    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        below = await root.start_supervisor("below", strategy="one_for_all")
        await below.start_service(brief, "brief", restart="transient")
        if moment == "its group is stopped":
            await below.start_service(part, "part")
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        if moment == "its supervisor rests":
            await root.start_service(part, "part")
        await trio.sleep(1)
        part.breaking.set()
        await trio.sleep(100)
        assert len(starts) == 1
        shown_child = root.tree().children[0]
        assert "brief" not in [child.name for child in shown_child.children]


async def test_an_uncertain_commit_while_its_supervisor_rests_ends_the_whole_tree() -> None:
    journal, part = TestJournal(), Part("part", [])

    async def body() -> None:
        async with open_supervisor(strategy="one_for_all", journal=journal, stop_within=None) as root:
            below = await root.start_supervisor("below")
            session = await below.spawn(spec_of(ScriptedModel([])), "mine")
            await below.start_service(slow_to_stop, "slow", shutdown=100.0)
            await root.start_service(part, "part")
            await settle()
            part.breaking.set()
            await settle()
            journal.fails_after = lambda _: CommitUnknown("the cable")
            with pytest.raises(SessionCrashed):
                await session.prompt("go")
            await trio.sleep(100)

    with pytest.raises(CommitUnknown):
        await body()


async def test_a_child_that_is_stopped_before_its_supervisor_has_started_it_again_stays_stopped() -> None:
    """The supervisor waits for `slow` to get ready meanwhile; the third child is started then."""
    texts: list[str] = []
    starts: list[float] = []

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        starts.append(trio.current_time())
        await trio.sleep(10 if len(starts) > 1 else 0)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor() as root:
        below = await root.start_supervisor("below", max_restarts=0)
        await below.start_service(slow, "slow")
        parts = await three(below, texts)
        parts[0].breaking.set()
        await trio.sleep(1)
        await below.stop_child("b")
        texts.clear()
        await trio.sleep(10)
        assert texts == ["+a", "+c"]
        texts.clear()
    assert texts == ["-c", "-a"]


@pytest.mark.parametrize("strategy", ["one_for_all", "one_for_one"])
async def test_the_others_are_started_although_one_is_stopped_before_it_is_ready_again(strategy: Strategy) -> None:
    """Under `one_for_one` the supervisor itself is started again, with all of them."""
    texts: list[str] = []
    starts: list[float] = []

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        starts.append(trio.current_time())
        await trio.sleep(10 if len(starts) > 1 else 0)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor() as root:
        most = 0 if strategy == "one_for_one" else 3
        below = await root.start_supervisor("below", strategy=strategy, max_restarts=most)
        await below.start_service(slow, "slow")
        parts = await three(below, texts)
        parts[0].breaking.set()
        await trio.sleep(1)
        texts.clear()
        await below.stop_child("slow")
        await settle()
        assert texts == ["+a", "+b", "+c"]
        assert len(root.crashes()) == (2 if strategy == "one_for_one" else 1)


async def late_to_stop(texts: list[str]) -> None:
    """Take 20 seconds to end, and say when it begins."""
    texts.append("+late")
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(20)


async def test_a_temporary_child_that_ends_late_while_its_group_is_stopped_is_not_started_again() -> None:
    texts: list[str] = []
    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        part = Part("part", texts)
        await root.start_service(slow_to_stop, "slow", shutdown=100.0)
        await root.start_service(part, "part")
        await root.start_service(partial(late_to_stop, texts), "late", restart="temporary", shutdown=1.0)
        await settle()
        part.breaking.set()
        await trio.sleep(100)
        assert texts == ["+part", "+late", "+part"]
        assert [child.name for child in root.tree().children] == ["slow", "part"]


async def test_a_child_that_ends_late_while_its_group_is_stopped_is_started_after_those_before_it() -> None:
    texts: list[str] = []
    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        part = Part("part", texts)
        await root.start_service(slow_to_stop, "slow", shutdown=100.0)
        await root.start_service(part, "part")
        await root.start_service(partial(late_to_stop, texts), "late", shutdown=1.0)
        await settle()
        texts.clear()
        part.breaking.set()
        await trio.sleep(100)
        assert texts == ["+part", "+late"]


async def test_a_child_that_ends_late_while_its_group_is_started_is_started_as_soon_as_that_is_done() -> None:
    texts: list[str] = []
    starts: list[float] = []

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        starts.append(trio.current_time())
        await trio.sleep(30 if len(starts) > 1 else 0)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor(strategy="rest_for_one", stop_within=None) as root:
        part = Part("part", texts)
        await root.start_service(part, "part")
        await root.start_service(partial(late_to_stop, texts), "late", shutdown=1.0)
        await root.start_service(slow, "slow", start_timeout=100.0)
        await settle()
        texts.clear()
        part.breaking.set()
        await trio.sleep(25)
        assert texts == ["+part"]
        await trio.sleep(10)
        assert texts == ["+part", "+late"]
        assert [child.restarts for child in root.tree().children] == [1, 1, 1]


@pytest.mark.parametrize("moment", ["it is started again", "it rests"])
async def test_whoever_stops_a_supervisor_waits_for_its_children_although(moment: str) -> None:
    texts: list[str] = []
    part = Part("part", texts)

    async def slow(task_status: trio.TaskStatus[None]) -> None:
        texts.append("+slow")
        await trio.sleep(10 if texts.count("+slow") > 1 else 0)
        task_status.started()
        await trio.sleep_forever()

    async with open_supervisor(strategy="one_for_all", stop_within=None) as root:
        below = await root.start_supervisor("below")
        await below.start_service(slow_to_stop, "first", shutdown=100.0)
        await below.start_service(slow, "slow")
        if moment == "it rests":
            await below.start_service(slow_to_stop, "last", shutdown=100.0)
        await root.start_service(part, "part")
        await settle()
        part.breaking.set()
        await trio.sleep(35 if moment == "it is started again" else 1)
        start = trio.current_time()
        await root.stop_child("below")
        assert trio.current_time() - start == (30 if moment == "it is started again" else 59)
        with pytest.raises(SupervisorClosed):
            await below.start_service(trio.sleep_forever, "new")


async def test_a_child_whose_stop_is_cancelled_is_gone_when_it_has_ended() -> None:
    async with open_supervisor(stop_within=None) as root:
        await root.start_service(slow_to_stop, "slow", shutdown=100.0)
        await settle()
        with trio.move_on_after(1):
            await root.stop_child("slow")
        await trio.sleep(30)
        assert root.tree().children == ()


async def test_a_supervisor_whose_stop_is_cancelled_is_stopped_all_the_same() -> None:
    """Before, some of its children were stopped, and the others ran on under a supervisor that took no child."""
    texts: list[str] = []
    async with open_supervisor(stop_within=None) as root:
        below = await root.start_supervisor("below")
        await three(below, texts)
        await below.start_service(slow_to_stop, "slow", shutdown=100.0)
        await settle()
        with trio.move_on_after(1) as scope:
            await root.stop_child("below")
        assert scope.cancelled_caught
        assert texts == []
        await trio.sleep(100)
        assert root.tree().children == ()
        assert texts == ["-c", "-b", "-a"]
        await root.start_supervisor("below")


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_uncertain_commit_of_a_session_that_is_stopped_ends_the_whole_tree(*, is_stored: bool) -> None:
    """Nobody may write after a commit of which nothing is known; whoever opens the journal next sees what it has."""
    journal = TestJournal()
    errors: list[AgentrailError] = []

    async def ask(session: SessionHandle) -> None:
        try:
            await session.ask("go")
        except AgentrailError as error:
            errors.append(error)

    async def body() -> None:
        async with open_supervisor(journal=journal, stop_within=None) as root, trio.open_nursery() as nursery:
            below = await root.start_supervisor("below")
            session = await below.spawn(spec_of(ScriptedModel([stall()])), "mine")
            nursery.start_soon(ask, session)
            await settle()
            uncertain = lambda _: CommitUnknown("the cable")  # noqa: E731
            journal.fails_after, journal.failing = (uncertain, None) if is_stored else (None, uncertain)
            await root.stop_child("below")
            assert [(report.path, report.done) for report in root.crashes()] == [(("below", "mine"), "failed")]
            await trio.sleep(100)

    with pytest.raises(CommitUnknown, match="the cable"):
        await body()
    assert [type(error) for error in errors] == [SessionCrashed]
    journal.fails_after = journal.failing = None
    async with open_supervisor(journal=journal) as root:
        (stored,) = await root.stored()
        assert stored.ended == is_stored
        if not is_stored:
            session = await root.resume("mine", spec_of(ScriptedModel(["back"])))
            await until(lambda: session.status().phase == "idle")


async def test_whoever_stops_a_session_is_told_of_an_uncertain_commit() -> None:
    journal = TestJournal()

    async def body() -> None:
        async with open_supervisor(journal=journal) as root:
            session = await root.spawn(spec_of(ScriptedModel([])), "mine")
            journal.fails_after = lambda _: CommitUnknown("the cable")
            with pytest.raises(SessionCrashed, match="CommitUnknown"):
                await session.stop()
            await trio.sleep(100)

    with pytest.raises(CommitUnknown):
        await body()


async def test_wrong_words_and_figures_are_refused() -> None:
    with pytest.raises(BadChoice):
        async with open_supervisor(strategy="one_for_none"):  # type: ignore[arg-type]  # on purpose
            pass
    for most, period in ((-1, 5.0), (1, 0.0)):
        with pytest.raises(UsageError, check=coded("bad-supervisor")):
            async with open_supervisor(max_restarts=most, period=period):
                pass
    async with open_supervisor() as supervisor:
        with pytest.raises(BadChoice):
            await supervisor.start_service(trio.sleep_forever, "a", restart="often")  # type: ignore[arg-type]  # on purpose


async def test_a_session_in_the_pause_before_its_restart_can_be_stopped() -> None:
    journal = TestJournal()
    downs: list[SessionDown] = []
    async with open_world(journal) as world:
        session = await world.spawn(["fine", "fine"], "mine")
        journal.failing = times(1)
        await session.ask("hi")
        journal.failing = times(1)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async with session.monitor() as down:
                    downs.append(await down.wait())

            nursery.start_soon(watch)
            await session.ask("go")
            await session.stop("enough")
    assert downs == [SessionDown("mine", "enough")]


async def test_an_uncertain_commit_below_ends_the_whole_tree() -> None:
    journal = TestJournal()

    async def body() -> None:
        async with open_supervisor(journal=journal) as root:
            below = await root.start_supervisor("below")
            session = await below.spawn(spec_of(ScriptedModel([])), "mine")
            journal.fails_after = lambda _: CommitUnknown("the cable")
            with pytest.raises(SessionCrashed):
                await session.prompt("go")
            with pytest.raises(SupervisorClosed):
                await root.spawn(spec_of(ScriptedModel([])), "late")
            await trio.sleep(100)

    with pytest.raises(CommitUnknown):
        await body()
