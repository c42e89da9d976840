"""Options of plugins when a session comes back: updates at run time last, all else is as in the code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypedDict

import pytest
import trio
from attrs import evolve, frozen

from agentrail import Context, Continue, Emit, Plugin, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import BadChoice, PluginMismatch, TurnAborted
from agentrail.events import PluginEvent, PluginOptsUpdated, ToolBlocked
from agentrail.models import JsonObject
from agentrail.plugins import AnyPlugin, BeforePrompt, BudgetGuard, HumanApproval, SecurityGuard
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.tools import quick
from tests.runtime.world import open_world, settle, until


class Changes(TypedDict, total=False):
    """Arguments of `update_plugin`."""

    one: int
    two: int
    pin: bool


@frozen
class Loose(Plugin[int]):
    """Has options, and remembers in its state how often they changed."""

    one: int = 1
    two: int = 2
    more: tuple[str, ...] = ()

    def init(self, ctx: Context) -> int:
        return 0

    def on_options(self, new: JsonObject, state: int) -> int:
        if new.get("one") == -1:
            raise KeyError(new["one"])
        return state + 1

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        return Continue()


@frozen
class Strict(Loose):
    """A critical plugin with the same options."""

    critical = True


def process(journal: TestJournal) -> AbstractAsyncContextManager[Supervisor]:
    return open_supervisor(journal=journal)


def spec(*plugins: AnyPlugin, script: tuple[str, ...] = ("one", "two", "three")) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(script), plugins=plugins)


def plugin_of(session: SessionHandle) -> Loose:
    (attached,) = session.inspect().plugins
    actual = session._session.code.hook_runner.plugin(attached)  # noqa: SLF001 - what rules
    assert isinstance(actual, Loose)
    assert {name: attached.options[name] for name in ("one", "two")} == {"one": actual.one, "two": actual.two}
    return actual


async def reported_updates(journal: TestJournal) -> list[PluginOptsUpdated]:
    records = await journal.read("s", 0, 10_000)
    events = [envelope.event for record in records for envelope in record.events]
    return [event for event in events if isinstance(event, PluginOptsUpdated)]


async def lived(cls: type[Loose], *lives: tuple[Loose, Changes]) -> tuple[Loose, list[PluginOptsUpdated]]:
    """Run a session once with each code, with updates each time; return its last plugin, and the events of updates."""
    journal = TestJournal()
    (first, options), *others = lives
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec(first), "s")
        if options:
            await session.update_plugin(cls, **options)
            await settle()
        plugin = plugin_of(session)
    for code, options in others:
        async with process(journal) as supervisor:
            session = await supervisor.resume("s", spec(code))
            if options:
                await session.update_plugin(cls, **options)
                await settle()
            plugin = plugin_of(session)
    return plugin, (await reported_updates(journal))


@pytest.mark.parametrize("cls", [Loose, Strict])
async def test_options_that_nobody_changed_come_from_the_code_and_it_is_told(cls: type[Loose]) -> None:
    actual, events = await lived(cls, (cls(), {}), (cls(one=5, more=("x",)), {}))
    assert actual == cls(one=5, more=("x",))
    assert events == [PluginOptsUpdated(cls.__name__, success=True)]


@pytest.mark.parametrize("cls", [Loose, Strict])
async def test_a_change_at_run_time_stays_while_the_code_is_as_it_was(cls: type[Loose]) -> None:
    actual, events = await lived(cls, (cls(), {"one": 7}), (cls(), {}), (cls(), {"two": 8}), (cls(), {}))
    assert actual == cls(one=7, two=8)
    assert [event.dropped for event in events] == [(), ()]


async def test_a_change_at_run_time_stays_beside_other_code_if_the_plugin_is_not_critical() -> None:
    actual, events = await lived(Loose, (Loose(), {"one": 7}), (Loose(one=3, two=9), {}))
    assert actual == Loose(one=7, two=9)
    assert [event.dropped for event in events] == [(), ()]


@pytest.mark.parametrize("code", [Strict(two=9), Strict(one=3), Strict(one=3, two=9), Strict(more=("x",))])
async def test_a_critical_plugin_takes_the_code_if_that_has_changed_and_names_what_it_dropped(code: Strict) -> None:
    actual, events = await lived(Strict, (Strict(), {"one": 7}), (code, {}))
    assert actual == code
    assert events[1:] == [PluginOptsUpdated("Strict", success=True, dropped=("one",))]


async def test_it_is_dropped_once_and_not_again() -> None:
    code = Strict(two=9)
    actual, events = await lived(Strict, (Strict(), {"one": 7}), (code, {}), (code, {}), (code, {"one": 4}), (code, {}))
    assert actual == evolve(code, one=4)
    assert [event.dropped for event in events] == [(), ("one",), ()]


async def test_a_pinned_change_stays_over_other_code_and_the_rest_does_not() -> None:
    lives: tuple[tuple[Loose, Changes], ...] = (
        (Strict(), {"one": 7, "pin": True}),
        (Strict(), {"two": 8}),
        (Strict(more=("x",)), {}),
    )
    actual, events = await lived(Strict, *lives)
    assert actual == Strict(one=7, more=("x",))
    assert events[-1].dropped == ("two",)
    actual, _ = await lived(Strict, *lives, (Strict(more=("y",)), {}))
    assert actual == Strict(one=7, more=("y",))


async def test_an_update_without_a_pin_unpins() -> None:
    actual, _ = await lived(Strict, (Strict(), {"one": 7, "pin": True}), (Strict(), {"one": 8}), (Strict(two=9), {}))
    assert actual == Strict(two=9)


async def test_a_drop_that_changes_nothing_is_not_named() -> None:
    actual, events = await lived(Strict, (Strict(), {"one": 7}), (Strict(one=7), {}))
    assert actual == Strict(one=7)
    assert [event.dropped for event in events] == [()]


async def test_the_plugin_is_told_of_its_other_options_and_may_refuse_them() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        await supervisor.spawn(spec(Loose()), "s")
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", spec(Loose(two=5)))
        assert session.inspect().plugin_states == (1,)
    async with process(journal) as supervisor:
        with pytest.raises(PluginMismatch, match=r"does not take its options: KeyError: -1"):
            await supervisor.resume("s", spec(Loose(one=-1)))
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", spec(Loose(two=5)))
        assert session.inspect().plugin_states == (1,)


@pytest.mark.parametrize(
    ("code", "at_last", "dropped"),
    [
        (Strict(), Strict(one=7), ()),
        (Strict(two=9), Strict(two=9), ("one",)),
        (Loose(two=9), Loose(one=7, two=9), ()),
    ],
)
async def test_a_change_that_waited_is_made_with_the_code_of_now(
    code: Loose, at_last: Loose, dropped: tuple[str, ...]
) -> None:
    journal = TestJournal()
    cls = type(code)
    async with process(journal) as supervisor:
        session = await supervisor.spawn(
            SessionSpec(model=ScriptedModel([say(calls=[call("quick")])]), tools=[quick()], plugins=[cls()]), "s"
        )
        await session.prompt("go")
        await session.update_plugin(cls, one=7)
        waits = session.inspect().plugin_changes
    async with process(journal) as supervisor:
        again = SessionSpec(model=ScriptedModel(["done"] * 3), tools=[quick()], plugins=[code])
        session = await supervisor.resume("s", again)
        await until(lambda: not session.status().turn_open and not session.inspect().plugin_changes)
        assert waits
        assert plugin_of(session) == at_last
    assert [event.dropped for event in await reported_updates(journal) if event.dropped] == (
        [dropped] if dropped else []
    )


@frozen
class Telling(Plugin[tuple[JsonObject, ...]]):
    """Remembers the options that `on_options` was given."""

    critical = True
    one: int = 1
    two: int = 2

    def init(self, ctx: Context) -> tuple[JsonObject, ...]:
        return ()

    def on_options(self, new: JsonObject, state: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
        return (*state, new)


@pytest.mark.parametrize(
    ("old_changes", "change", "code", "heard", "telling", "dropped"),
    [
        ({}, {"one": 7}, Telling(), [{"one": 7}], Telling(one=7), [()]),
        ({}, {"one": 7}, Telling(two=9), [{"two": 9}], Telling(two=9), [("one",)]),
        ({}, {"one": 7, "pin": True}, Telling(two=9), [{"two": 9}, {"one": 7}], Telling(one=7, two=9), [(), ()]),
        ({}, {"one": 7, "two": 8}, Telling(one=7), [{"one": 7}], Telling(one=7), [("two",)]),
        ({"one": 7}, {"one": 7}, Telling(one=7), [{"one": 7}], Telling(one=7), [(), ()]),
        ({"two": 8, "pin": True}, {"one": 7}, Telling(two=9), [{"two": 8}], Telling(two=8), [(), ("one",)]),
        (
            {"one": 7},
            {"two": 8, "pin": True},
            Telling(one=3),
            [{"one": 7}, {"one": 3}, {"two": 8}],
            Telling(one=3, two=8),
            [(), ("one",), ()],
        ),
    ],
)
async def test_a_change_that_waited_tells_the_plugin_of_the_options_that_it_gets(
    old_changes: Changes,
    change: Changes,
    code: Telling,
    heard: list[dict[str, int]],
    telling: Telling,
    dropped: list[tuple[str, ...]],
) -> None:
    """An option that was dropped from a waiting change is not passed to `on_options`: the state would not match."""
    journal = TestJournal()

    def made_of(plugin: Telling, *script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), tools=[quick()], plugins=[plugin])

    async with process(journal) as supervisor:
        session = await supervisor.spawn(made_of(Telling(), say(calls=[call("quick")])), "s")
        if old_changes:
            await session.update_plugin(Telling, **old_changes)
        await session.prompt("go")
        await session.update_plugin(Telling, **change)
        assert session.inspect().plugin_changes
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", made_of(code, "done", "done"))
        await until(lambda: not session.status().turn_open and not session.inspect().plugin_changes)
        (attached,) = session.inspect().plugins
        assert session._session.code.hook_runner.plugin(attached) == telling  # noqa: SLF001 - what rules
        (state,) = session.inspect().plugin_states
        assert [dict(new) for new in state] == heard  # type: ignore[attr-defined]  # it is a tuple
    assert [event.dropped for event in await reported_updates(journal)] == dropped


async def test_a_fork_takes_the_options_of_its_code_too() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec(Strict()), "s")
        await session.update_plugin(Strict, one=7)
        await settle()
        same = await session.fork(id="t")
        assert plugin_of(same) == Strict(one=7)
        await session.stop()
        other = await supervisor.fork("s", spec(Strict(two=9)), id="u")
        assert plugin_of(other) == Strict(two=9)


async def test_who_sleeps_or_crashes_keeps_its_options() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec(Strict()).but(hibernate_after=0.001), "s")
        await session.update_plugin(Strict, one=7)
        await settle()
        await session.resume()
        assert plugin_of(session) == Strict(one=7)


@pytest.mark.parametrize("pin", [1, "yes", None])
async def test_a_pin_is_a_boolean(pin: object) -> None:
    async with open_world() as world:
        session = await world.spawn((), plugins=[Loose()])
        with pytest.raises(BadChoice, match="pin"):
            await session.update_plugin(Loose, one=2, pin=pin)  # type: ignore[arg-type]  # that is the mistake


# The guards of the issue


async def test_one_more_blocked_path_binds_sessions_that_come_back() -> None:
    journal = TestJournal()

    def guarded(guard: SecurityGuard) -> SessionSpec:
        script: list[Element] = [say(calls=[call("quick", {"path": "secret/plans"})]), "done"]
        return SessionSpec(model=ScriptedModel(script), tools=[quick()], plugins=[guard])

    async with process(journal) as supervisor:
        await supervisor.spawn(guarded(SecurityGuard()), "s")
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", guarded(SecurityGuard(blocked_paths=("secret/plans",))))
        await session.ask("go")
    events = [envelope.event for record in await journal.read("s", 0, 1_000) for envelope in record.events]
    assert [event.plugin for event in events if isinstance(event, ToolBlocked)] == ["SecurityGuard"]
    assert await reported_updates(journal) == [PluginOptsUpdated("SecurityGuard", success=True)]


async def test_a_lower_budget_binds_sessions_that_come_back() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec(BudgetGuard(max_rounds=10)), "s")
        await session.update_plugin(BudgetGuard, max_rounds=20)
        await session.ask("go")
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", spec(BudgetGuard(max_rounds=1)))
        with pytest.raises(TurnAborted, match="max_rounds=1"):
            await session.ask("again")
    assert (await reported_updates(journal))[-1].dropped == ("max_rounds",)


async def test_a_sub_agent_takes_the_code_of_guards_and_keeps_what_remained_of_limits() -> None:
    journal = TestJournal()

    def family(script: list[Element], inner: list[Element], *guards: AnyPlugin) -> SessionSpec:
        hold = HumanApproval(tools=("quick",), timeout=None)
        finder = agent(inner, tools=[quick()], plugins=[hold])
        return SessionSpec(model=ScriptedModel(script), agents={"finder": finder}, plugins=guards)

    first = family([task(), "fine"], [say(calls=[call("quick")])], BudgetGuard(max_rounds=10), SecurityGuard())
    async with process(journal) as supervisor:
        session = await supervisor.spawn(first, "p")
        (held,) = (await session.ask("go")).held
    guards = (BudgetGuard(max_rounds=6), SecurityGuard(blocked_paths=("secret/plans",)))
    async with process(journal) as supervisor:
        session = await supervisor.resume("p", family(["fine"], ["found"], *guards))
        await until(lambda: session.status().held)
        (child,) = (found_session for found_session in supervisor.sessions() if found_session.id != "p")
        attached_plugins = {attached.key: attached.options for attached in child.inspect().plugins}
        assert attached_plugins["BudgetGuard"]["max_rounds"] == 9
        assert attached_plugins["SecurityGuard"]["blocked_paths"] == ("secret/plans",)
        await session.approve(held.id)
        await until(lambda: not session.status().turn_open)
        assert session.messages()[-1].text == "fine"


# Options that JSON cannot hold


def first(_: str) -> bool:
    return True


def second(_: str) -> bool:
    return False


@frozen
class Judged(Plugin[None]):
    """One of its options is a function, which no journal can hold."""

    judged: Callable[[str], bool] = first
    most: int = 1

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Emit[None]:
        return Emit("options", {"judged": self.judged(""), "most": self.most})


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("code", "changed", "dropped"),
    [
        (Judged(), {"judged": second}, ("judged",)),
        (Judged(), {"judged": second, "most": 5}, ("judged",)),
        (Judged(judged=second), {"most": 5}, ()),
    ],
)
async def test_an_option_that_json_cannot_hold_is_told_to_be_dropped_by_a_return(
    code: Judged, changed: dict[str, object], dropped: tuple[str, ...], *, waits: bool
) -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("a", delay=5)]), plugins=[code]), "a")
        if waits:
            await session.prompt("hello")
        await session.update_plugin(Judged, **changed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # made from a table
    async with open_supervisor(journal=journal) as supervisor:
        back = await supervisor.resume("a", SessionSpec(model=ScriptedModel(["b", "c"]), plugins=[code]))
        await settle()
        async with back.subscribe(since=0, types=[PluginOptsUpdated, PluginEvent]) as events:
            await back.ask("again")
            report = []
            with trio.move_on_after(1):
                async for envelope in events:
                    report.append(envelope.event)  # noqa: PERF401 - it is cut short
    removed = [event.dropped for event in report if isinstance(event, PluginOptsUpdated) and event.dropped]
    assert removed == ([dropped] if dropped else [])
    (*_, last) = (event.payload for event in report if isinstance(event, PluginEvent))
    assert isinstance(last, dict)
    assert (last["judged"], last["most"]) == (code.judged(""), changed.get("most", code.most))


@frozen
class Vague(Plugin[None]):
    """What one of its options holds is not said, so that it cannot be read back."""

    most: object = 1
    least: int = 0


async def test_an_option_that_cannot_be_read_back_is_dropped_and_does_not_keep_the_session_away() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[Vague()]), "a")
        await session.update_plugin(Vague, most=5, least=3)
    async with open_supervisor(journal=journal) as supervisor:
        back = await supervisor.resume("a", SessionSpec(model=ScriptedModel([]), plugins=[Vague()]))
        assert back.inspect().plugins[0].options == {"most": 1, "least": 3}
        async with back.subscribe(since=0, types=[PluginOptsUpdated]) as events:
            reported_events = [(await anext(aiter(events))).event for _ in range(2)]
        assert reported_events == [
            PluginOptsUpdated("Vague", success=True, dropped=removed) for removed in ((), ("most",))
        ]
