"""Functions in `specs` that are async, or are told of the session whose specification they build."""

from __future__ import annotations

import pytest
import trio

from agentrail import SessionSpec, SpecWanted, open_supervisor
from agentrail.errors import SessionCrashed, WrongType
from agentrail.models import UserMessage
from agentrail.testing import ScriptedModel, stall
from tests.kit import Element, freeze_object
from tests.runtime.journals import TestJournal
from tests.runtime.test_sleeping import fall_asleep
from tests.runtime.world import until

USER_DATA = freeze_object({"plan": "gold"})


def desk(*script: Element, hibernate_after: float | None = None) -> SessionSpec:
    return SessionSpec(
        model=ScriptedModel(list(script)), name="desk", user_data={"plan": "gold"}, hibernate_after=hibernate_after
    )


async def stored(journal: TestJournal, spec: SessionSpec) -> None:
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s", tenant="acme", owner="ann")
        await session.ask("hi")


async def test_an_async_builder_is_told_of_the_session() -> None:
    """It is told the same when the session is resumed, woken and forked."""
    spec_wanteds: list[SpecWanted] = []

    async def build(spec_wanted: SpecWanted) -> SessionSpec:
        spec_wanteds.append(spec_wanted)
        await trio.sleep(0.5)
        return desk("two", "three", hibernate_after=10)

    journal = TestJournal()
    await stored(journal, desk("one", hibernate_after=10))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        session = await supervisor.resume("s")
        assert (await session.ask("and?")).text == "two"
        await fall_asleep(session)
        assert (await session.ask("are you there?")).text == "two"
        await session.stop()
        fork = await supervisor.fork("s", id="t")
        assert (await fork.ask("or?")).text == "two"
    first, second = "hi", "and?"
    assert [
        (expected_value.session_id, expected_value.name, expected_value.tenant, expected_value.owner)
        for expected_value in spec_wanteds
    ] == [
        ("s", "desk", "acme", "ann"),
        ("s", "desk", "acme", "ann"),
        ("t", "desk", "acme", "ann"),
    ]
    assert [spec_wanted.user_data for spec_wanted in spec_wanteds] == [USER_DATA] * 3
    texts = [
        [message.text for message in expected.state.history if isinstance(message, UserMessage)]
        for expected in spec_wanteds
    ]
    assert texts == [[first], [first, second], [first, second, "are you there?"]]
    assert [spec_wanted.state.session_id for spec_wanted in spec_wanteds] == ["s", "s", "t"]


async def test_what_was_under_way_comes_back_by_an_async_builder() -> None:
    async def build() -> SessionSpec:
        await trio.sleep(0.5)
        return desk("here I am")

    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(desk(stall()), "s")
        await session.prompt("hi")
        await trio.sleep(1)
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        await until(lambda: [session_.id for session_ in supervisor.sessions()] == ["s"])


async def test_a_builder_whose_arguments_have_defaults_is_given_none() -> None:
    def build(answer: str = "two") -> SessionSpec:
        return desk(answer)

    journal = TestJournal()
    await stored(journal, desk("one"))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        assert (await (await supervisor.resume("s")).ask("and?")).text == "two"


async def test_a_caller_may_give_up_while_a_builder_waits() -> None:
    event = trio.Event()
    is_late = True

    async def build(_: SpecWanted) -> SessionSpec:
        event.set()
        if is_late:
            await trio.sleep_forever()
        return desk("two")

    journal = TestJournal()
    await stored(journal, desk("one"))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        with trio.move_on_after(5) as scope:
            await supervisor.resume("s")
        assert event.is_set()
        assert scope.cancelled_caught
        is_late = False
        assert (await (await supervisor.resume("s")).ask("and?")).text == "two"


async def test_a_supervisor_ends_while_a_builder_waits_to_wake_a_session() -> None:
    waits = False

    async def build(_: SpecWanted) -> SessionSpec:
        if waits:
            await trio.sleep_forever()
        return desk("two", "three", hibernate_after=10)

    journal = TestJournal()
    await stored(journal, desk("one", hibernate_after=10))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        session = await supervisor.resume("s")
        await fall_asleep(session)
        waits = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "are you there?")
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    waits = False
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        assert (await (await supervisor.resume("s")).ask("and?")).text == "two"


async def test_what_is_no_specification_is_named() -> None:
    async def build(_: SpecWanted) -> SessionSpec:
        return "desk"  # type: ignore[return-value]  # on purpose

    journal = TestJournal()
    await stored(journal, desk("one"))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        with pytest.raises(WrongType, match="give a `SessionSpec`"):
            await supervisor.resume("s")


async def test_a_builder_that_fails_while_a_session_wakes_crashes_that_session_alone() -> None:
    fails = False

    async def build(spec_wanted: SpecWanted) -> SessionSpec:
        await trio.lowlevel.checkpoint()
        if fails and spec_wanted.session_id == "s":
            raise FileNotFoundError(2, "no such file")
        return desk("two", hibernate_after=10)

    journal = TestJournal()
    await stored(journal, desk("one", hibernate_after=10))
    async with open_supervisor(journal=journal, specs={"desk": build}) as supervisor:
        session = await supervisor.resume("s")
        await fall_asleep(session)
        fails = True
        with pytest.raises(SessionCrashed, match="no such file"):
            await session.ask("are you there?")
        other = await supervisor.spawn(desk("fine"), "other")
        assert (await other.ask("and you?")).text == "fine"


async def test_one_function_builds_for_any_name() -> None:
    async def build(spec_wanted: SpecWanted) -> SessionSpec:
        await trio.sleep(0.5)
        return desk(spec_wanted.name)

    journal = TestJournal()
    await stored(journal, desk("one"))
    async with open_supervisor(journal=journal, specs=build) as supervisor:
        session = await supervisor.resume("s")
        assert session.inspect().setup.spec == "desk"


def test_one_function_is_checked_as_each_of_several() -> None:
    with pytest.raises(WrongType, match="a function that needs other arguments under 'any name'"):
        open_supervisor(specs=lambda item, two: desk("one"))  # type: ignore[arg-type]  # noqa: ARG005
