from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

import pytest
import trio
import trio.testing

from agentrail.journals import Journal, SqliteJournal
from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.diagnosis.watchdog import Alarm, KernelAlarm
from tests import hook_time
from tests.profiles import CAMPAIGN
from tests.runtime.journals import INNER, AwakeJournal
from tests.runtime.world import World, open_world

T = TypeVar("T")

ON_BOTH_JOURNALS = {"test_abort", "test_commands", "test_shutdown", "test_supervisor", "test_trouble"}

A_DAY = 24 * 60 * 60


def run_in_virtual_time(
    test: Callable[[], Awaitable[T]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """Run a test on a virtual clock, which jumps when all tasks wait; the test fails after a day of virtual time."""

    async def bounded() -> T:
        with trio.fail_after(A_DAY):
            return await test()

    return trio.run(bounded, clock=clock or trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


def mark_virtual(items: list[pytest.Item], folder: Path) -> None:
    """Have the async tests in *folder* run in virtual time."""
    inside = f"{folder}/"  # compared as texts: the parents of the paths of all tests would take a second
    for item in items:
        if str(item.path).startswith(inside) and isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_virtual(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests whose outcome may depend on the journal with each kind: in memory, and in a file."""
    if CAMPAIGN or cast("ModuleType", metafunc.module).__name__.rpartition(".")[2] in ON_BOTH_JOURNALS:
        metafunc.fixturenames.append("journal_kind")
        metafunc.parametrize("journal_kind", ["memory", "sqlite"], indirect=True)


@pytest.fixture
def slow_hooks_are_told() -> Iterator[None]:
    """Have the event `PluginSlow` told, as outside of tests; for tests with a clock of their own."""
    hook_time.allow(hook_time.TOLD)
    yield
    hook_time.allow(hook_time.ANY)


@pytest.fixture
def journal_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if request.param == "memory":
        yield
        return
    sqlite_journals: list[SqliteJournal] = []

    def make() -> Journal:
        sqlite_journals.append(SqliteJournal(tmp_path_factory.mktemp("journal") / "agentrail.db", sync="normal"))
        return AwakeJournal(sqlite_journals[-1])

    token = INNER.set(make)
    yield
    INNER.reset(token)
    for journal in sqlite_journals:
        trio.run(journal.close)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


@pytest.fixture(params=[KernelAlarm, Alarm])
def alarm_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Alarm]:
    """Have watchdogs use one kind of alarm."""
    kind: type[Alarm] = request.param
    if kind is Alarm:
        monkeypatch.setattr(watchdog, "KernelAlarm", _no_timer)
    return kind


def _no_timer(_: float) -> Alarm:
    raise OSError


@pytest.fixture(autouse=True)
def home_of_the_tests(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test see snapshots of files that another one has left: a deletion looks for its own, in a thread."""
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path_factory.getbasetemp() / "no-home"))
