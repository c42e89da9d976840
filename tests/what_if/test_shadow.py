"""`SessionSpec(shadow=…)`: plugins that are asked beside those of a session that runs, and change nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from attrs import frozen

from agentrail import Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import BadPlugin, BadSpec, UsageError
from agentrail.events import SessionHibernated, ShadowDiffers, ShadowEnded
from agentrail.insight import ShadowReport, backtest
from agentrail.journals import Journal, MemoryJournal, SqliteJournal
from agentrail.plugins import AnyPlugin, BeforeTool, Context, Keyed
from agentrail.runtime.diagnosis import shadows
from agentrail.testing import ScriptedModel
from tests.what_if.stories import Closed, Turn, look, pay, script_of

TURNS: tuple[Turn, ...] = ([("look", "a"), ("look", "b")], [("look", "c")])


def spec_of(shadow: Sequence[AnyPlugin | Keyed], plugins: Sequence[AnyPlugin] = ()) -> SessionSpec:
    return SessionSpec(
        model=ScriptedModel(script_of(TURNS)), name="s", tools=[look, pay], plugins=plugins, shadow=shadow
    )


async def caught_up(session: SessionHandle, record: int) -> ShadowReport:
    """Return the report once the shadow has seen the session's record of this number."""
    while (report := session.shadow()).record < record and not report.ended:
        await trio.to_thread.run_sync(int)  # its thread has time, whatever the clock is
    return report


async def heads(journal: Journal) -> int:
    (stored,) = await journal.sessions()
    return stored.head


async def test_a_shadow_tells_what_would_have_been_and_changes_nothing() -> None:
    journal, plain = MemoryJournal(), MemoryJournal()
    async with open_supervisor(journal=plain) as supervisor:
        session = await supervisor.spawn(spec_of([], [Closed("nothing")]), "s1")
        for _ in TURNS:
            await session.ask("Go.")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of([Closed("b")], [Closed("nothing")]), "s1")
        async with session.subscribe(types=[ShadowDiffers]) as events:
            for _ in TURNS:
                await session.ask("Go.")
            report = await caught_up(session, await heads(journal))
            told = (await anext(events)).event
    assert (report.differing, report.ended) == (1, "")
    (part,) = report.parts
    assert (part.hook, part.field, part.turn) == ("before_tool", "verdict", 1)
    assert isinstance(told, ShadowDiffers)
    assert (told.plugin, told.hook, told.call_id) == ("Closed", "before_tool", part.call_id)
    assert told.now == part.now.sentence
    beside, alone = [
        [(record.effects, [type(envelope.event) for envelope in record.events]) for record in await kept.read("s1")]
        for kept in (journal, plain)
    ]
    assert beside == alone
    # What a shadow finds is what a back-test finds afterwards.
    (session_,) = (await backtest(journal, [Closed("b")], beyond="as recorded")).sessions
    assert session_.parts == report.parts


async def test_without_a_shadow_the_report_is_empty() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo"))
        await session.ask("Hello")
        assert session.shadow() == ShadowReport()


async def test_it_is_found_again_when_the_session_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        session = await supervisor.spawn(spec_of([Closed("b")]), "s1")
        await session.ask("Go.")
    async with open_supervisor(journal=SqliteJournal(path), specs={"s": lambda: spec_of([Closed("b")])}) as supervisor:
        session = await supervisor.resume("s1")
        async with session.subscribe(types=[ShadowDiffers]) as events:
            report = await caught_up(session, 5)
            assert [part.turn for part in report.parts] == [1]
            with trio.move_on_after(0.05):
                await anext(events)
                pytest.fail("what is of before was told again")


async def test_it_begins_anew_when_the_session_wakes() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = spec_of([Closed("b")]).but(hibernate_after=0.05)
        session = await supervisor.spawn(spec, "s1")
        async with session.subscribe(types=[SessionHibernated]) as events:
            await session.ask("Go.")
            await anext(events)
        await session.ask("Go.")
        report = await caught_up(session, await heads(journal))
        assert [part.turn for part in report.parts] == [1]


RELEASED = threading.Event()


@frozen
class Hanging(Plugin[None]):
    """Never answers."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        RELEASED.wait()
        return Continue()


@frozen
class Broken(Plugin[None]):
    """Raises what only a person may."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        raise KeyboardInterrupt


async def test_one_that_hangs_is_let_go_of_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "MOST_WAITING", 3)
    try:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec_of([Hanging()]), "s1")
            for _ in TURNS:
                assert (await session.ask("Go.")).text == "Done."
            assert session.shadow().ended == "3 records waited for it: it hangs, or is too slow"
    finally:
        RELEASED.set()


async def test_one_that_breaks_is_not_noticed() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of([Broken()]), "s1")
        for _ in TURNS:
            assert (await session.ask("Go.")).text == "Done."
        assert (await caught_up(session, await heads(journal))).ended.startswith("it broke: KeyboardInterrupt")


@frozen
class Failing(Plugin[None]):
    """Raises an error at each call."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        raise ValueError(hook.name)


async def test_one_that_fails_three_times_is_let_go_of() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of([Failing()]), "s1")
        async with session.subscribe(types=[ShadowEnded]) as events:
            for _ in TURNS:
                assert (await session.ask("Go.")).text == "Done."
            told = (await anext(events)).event
        assert told == ShadowEnded("`Failing` failed in `before_tool`: ValueError: look (3 failures)")


@frozen
class Unable(Plugin[int]):
    """Has no first state."""

    def init(self, ctx: Context) -> int:
        raise ValueError(ctx.session_id)

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + 1)


async def test_one_that_no_session_could_have_is_let_go_of() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of([Unable()]), "s1")
        await session.ask("Go.")
        assert (await caught_up(session, await heads(journal))).ended == "`Unable` made no first state: ValueError: s1"


async def test_one_that_is_slow_three_times_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "SLOW", 0.0)
    monkeypatch.setattr(shadows, "PAGE", 1)
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of([Closed("b")]), "s1")
        await session.ask("Go.")
        report = await caught_up(session, await heads(journal))
        assert report.ended.startswith("it was slow 3 times: ")
        assert report.record == 3


@pytest.mark.parametrize(
    ("shadow", "error"), [([3], BadPlugin), ([Closed(), Closed()], UsageError), ("Closed", BadSpec)]
)
async def test_what_is_no_shadow_is_told(shadow: list[Closed], error: type[Exception]) -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(error):
            await supervisor.spawn(SessionSpec(model="demo", shadow=shadow))
