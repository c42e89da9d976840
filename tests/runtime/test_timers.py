from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from agentrail.runtime.shared.clock import Clock, utc_time
from agentrail.runtime.shared.timers import Timers


@pytest.fixture
async def timers() -> AsyncIterator[Timers]:
    async with trio.open_nursery() as nursery:
        new_timers = Timers(Clock())
        nursery.start_soon(new_timers.run)
        yield new_timers
        nursery.cancel_scope.cancel()


async def test_timers_fire_in_order_of_time_whatever_the_order_they_were_set(timers: Timers) -> None:
    fired: list[tuple[str, float]] = []
    start = trio.current_time()

    def note(name: str) -> None:
        fired.append((name, trio.current_time() - start))

    for name, after in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        timers.set(("s", name), start + after, lambda name=name: note(name))  # type: ignore[misc]  # binds early
    await trio.sleep(10)
    assert [name for name, _ in fired] == ["a", "b", "c"]
    assert [round(time, 6) for _, time in fired] == [1.0, 2.0, 3.0]


async def test_an_earlier_timer_wakes_one_that_sleeps_for_a_later(timers: Timers) -> None:
    fired: list[str] = []
    timers.set(("s", "late"), trio.current_time() + 100, lambda: fired.append("late"))
    await trio.testing.wait_all_tasks_blocked()
    timers.set(("s", "soon"), trio.current_time() + 1, lambda: fired.append("soon"))
    await trio.sleep(2)
    assert fired == ["soon"]


async def test_to_set_and_clear_an_earlier_one_wakes_no_task(timers: Timers) -> None:
    fired: list[str] = []
    timers.set(("s", "late"), trio.current_time() + 100, lambda: fired.append("late"))
    await trio.testing.wait_all_tasks_blocked()
    timers.set(("s", "soon"), trio.current_time() + 1, lambda: fired.append("soon"))
    assert trio.lowlevel.current_statistics().tasks_runnable == 0
    timers.clear(("s", "soon"))
    await trio.sleep(200)
    assert fired == ["late"]


async def test_a_timer_replaces_one_of_the_same_key(timers: Timers) -> None:
    fired: list[str] = []
    timers.set(("s", "t"), trio.current_time() + 1, lambda: fired.append("old"))
    timers.set(("s", "t"), trio.current_time() + 2, lambda: fired.append("new"))
    await trio.sleep(1.5)
    assert fired == []
    await trio.sleep(10)
    assert fired == ["new"]


async def test_a_cleared_timer_never_fires(timers: Timers) -> None:
    fired: list[str] = []
    for owner in ("a", "b"):
        timers.set((owner, "t"), trio.current_time() + 1, lambda owner=owner: fired.append(owner))  # type: ignore[misc]  # binds early
    timers.clear(("a", "t"))
    timers.clear(("a", "never set"))
    await trio.sleep(10)
    assert fired == ["b"]


async def test_all_timers_of_an_owner_are_cleared_together(timers: Timers) -> None:
    fired: list[str] = []
    timers.set(("a", "1"), trio.current_time() + 1, lambda: fired.append("a1"))
    timers.set(("a", "2"), trio.current_time() + 1, lambda: fired.append("a2"))
    timers.set(("b", "1"), trio.current_time() + 1, lambda: fired.append("b1"))
    timers.clear_all("a")
    await trio.sleep(10)
    assert fired == ["b1"]


async def test_a_timer_may_set_itself_again(timers: Timers) -> None:
    fired: list[float] = []

    def again() -> None:
        fired.append(trio.current_time())
        if len(fired) < 3:
            timers.set(("s", "t"), trio.current_time() + 1, again)

    timers.set(("s", "t"), trio.current_time() + 1, again)
    await trio.sleep(10)
    assert len(fired) == 3


async def test_a_time_that_has_passed_fires_at_once(timers: Timers) -> None:
    fired: list[str] = []
    timers.set(("s", "t"), trio.current_time() - 5, lambda: fired.append("t"))
    await trio.testing.wait_all_tasks_blocked()
    assert fired == ["t"]


async def test_timers_that_are_cleared_and_set_for_ever_do_not_pile_up(timers: Timers) -> None:
    timers.set(("s", "first"), trio.current_time() + 1, lambda: None)
    for _ in range(10_000):
        timers.set(("s", "call"), trio.current_time() + 60, lambda: None)
        timers.clear(("s", "call"))
    assert timers.size < 200


@pytest.mark.parametrize(
    ("milliseconds", "time"),
    [(10**12, "2001-09-09"), (0, "1970-01-01"), (-(10**18), "1970-01-01"), (2**64 - 1, "5138-11-16")],
)
def test_a_stored_time_that_no_clock_shows_is_no_error(milliseconds: int, time: str) -> None:
    assert f"{utc_time(milliseconds):%Y-%m-%d}" == time
