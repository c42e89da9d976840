"""`SessionSpec.deps`: tools get live objects of the program, which no record, log or report ever contains."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import assert_type

import pytest
import trio
from attrs import define

from agentrail import DepsWanted, SessionSpec, open_supervisor, tool
from agentrail.errors import BadSpec, UsageError
from agentrail.journals import MemoryJournal
from agentrail.models import JsonObject, Model
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ToolSpec, make_spec, ok
from tests.coded import coded


@define
class Shop:
    """What a program gives its tools."""

    customer: str


@tool
async def balance(ctx: ToolContext[Shop]) -> str:  # noqa: ASYNC124 - a tool is async
    """Return the balance of the customer."""
    assert_type(ctx.deps, Shop)
    return f"balance of {ctx.deps.customer}"


@tool
async def plain(ctx: ToolContext) -> str:  # noqa: ASYNC124 - a tool is async
    """Look for what it did not ask for."""
    return str(ctx.deps)


class Owned:
    """A tool with a class of its own."""

    spec: ToolSpec = make_spec("owned", "Return the customer.", {})

    async def execute(self, args: JsonObject, ctx: ToolContext[Shop]) -> ToolResult:  # noqa: ASYNC124 - as tools are
        """Return the customer."""
        return ok(ctx.deps.customer)


class Canary:
    """Raises if anything looks at it."""

    def _sings(self, *_: object) -> str:
        raise AssertionError("somebody looked at the dependencies")

    __repr__ = __str__ = __reduce_ex__ = __eq__ = __ne__ = __hash__ = __bool__ = _sings  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]


def calls(*names: str, times: int = 1) -> Model:
    """Return a model that calls tools, in each of several turns."""
    return ScriptedModel([say(calls=[call(name) for name in names]), "Done."] * times)


async def results(spec: SessionSpec) -> list[str]:
    """Return the results of the calls of one turn."""
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec, "s", tenant="acme", labels=["vip"])
        await session.ask("Go.")
        return [message.text for message in session.messages()[2:-1]]


async def test_tools_get_an_object() -> None:
    spec = SessionSpec(model=calls("balance", "owned"), tools=[balance, Owned()], deps=Shop("ann"))
    assert await results(spec) == ["balance of ann", "ann"]


async def test_a_tool_that_does_not_ask_gets_none() -> None:
    [text] = await results(SessionSpec(model=calls("plain"), tools=[plain], deps=Shop("ann")))
    assert "cannot give a tool its `deps`: this call has none; annotate" in text


async def _async_maker(session: DepsWanted) -> Shop:  # noqa: ASYNC124 - it stands for one that connects
    return Shop(f"{session.session_id} {session.tenant} {session.labels[0]}")


class _Shops:
    def make(self, session: DepsWanted) -> Shop:
        """Return the shop of a session."""
        return _sync_maker(session)


def _sync_maker(session: DepsWanted) -> Shop:
    return Shop(f"{session.session_id} {session.tenant} {session.labels[0]}")


@pytest.mark.parametrize("make", [_async_maker, _sync_maker, partial(_sync_maker), _Shops().make])
async def test_a_function_makes_them_for_the_session(make: object) -> None:
    assert await results(SessionSpec(model=calls("balance"), tools=[balance], deps=make)) == ["balance of s acme vip"]


async def test_they_are_made_once_when_calls_first_want_them() -> None:
    texts: list[str] = []

    async def make() -> Shop:
        texts.append("made")
        await trio.lowlevel.checkpoint()
        return Shop("ann")

    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=calls("balance", "balance", "balance", times=2), tools=[balance], deps=make)
        session = await supervisor.spawn(spec)
        assert texts == []
        await session.ask("Go.")
        await session.ask("Go.")
    assert texts == ["made"]


async def test_a_failed_function_is_asked_again_by_the_next_call() -> None:
    outcomes: Iterator[Shop | Exception] = iter([OSError("no database"), Shop("ann")])

    async def make() -> Shop:  # noqa: ASYNC124 - it stands for one that connects
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=calls("balance", times=2), tools=[balance], deps=make)
        session = await supervisor.spawn(spec, "s")
        await session.ask("Go.")
        await session.ask("Go.")
        first, second = session.messages()[2].text, session.messages()[-2].text
    assert "its function raised OSError: no database for session `s`" in first
    assert second == "balance of ann"


async def test_a_spec_without_them_is_refused_at_spawn_and_at_return() -> None:
    text = r"`balance` wants `ToolContext\[Shop\]`, and the session has none; give its spec `SessionSpec\(deps=…\)`"
    spec = SessionSpec(model=calls("balance", times=2), tools=[balance])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(UsageError, check=coded("bad-deps"), match=text):
            await supervisor.spawn(spec)
        await supervisor.spawn(spec.but(deps=Shop("ann")), "s")
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(UsageError, check=coded("bad-deps"), match=text):
            await supervisor.resume("s", spec)


async def test_a_tool_that_is_attached_later_is_refused_without_them() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo"))
        with pytest.raises(UsageError, check=coded("bad-deps"), match="`balance` wants"):
            await session.attach_tools(balance)


async def test_an_object_of_another_class_is_refused() -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(
            UsageError, check=coded("bad-deps"), match=r"`balance` wants `ToolContext\[Shop\]`, and found is a `str`"
        ):
            await supervisor.spawn(SessionSpec(model="demo", tools=[balance], deps="ann"))
    [text] = await results(SessionSpec(model=calls("balance"), tools=[balance], deps=lambda: "ann"))
    assert "and found is a `str`" in text


@contextlib.contextmanager
def _managed() -> Iterator[Shop]:
    yield Shop("ann")


@pytest.mark.parametrize(
    ("deps", "problem"),
    [
        (_managed, "is a function that is a generator"),
        (lambda item, two: (item, two), "is a function that needs other arguments"),
        (Shop, "is a class that needs other arguments"),
    ],
)
async def test_a_function_that_cannot_make_them_is_refused(deps: Callable[..., object], problem: str) -> None:
    with pytest.raises(BadSpec, match=f"its `deps` {problem}; use an object, a class without arguments, or a function"):
        SessionSpec(model="demo", deps=deps).check()


async def test_they_are_made_anew_when_a_session_returns() -> None:
    texts: list[str] = []

    def make(session: DepsWanted) -> Shop:
        texts.append(session.session_id)
        return Shop(f"{session.tenant} {len(texts)}")

    def build() -> SessionSpec:
        return SessionSpec(model=calls("balance"), name="shop", tools=[balance], deps=make)

    journal = MemoryJournal()
    answers: list[str] = []
    for again in (False, True):
        async with open_supervisor(journal=journal, specs={"shop": build}) as supervisor:
            session = await (supervisor.resume("s") if again else supervisor.spawn(build(), "s", tenant="acme"))
            await session.ask("Go.")
            answers.append(session.messages()[-2].text)
    assert answers == ["balance of acme 1", "balance of acme 2"]
    assert texts == ["s", "s"]


@pytest.mark.parametrize("shop", [None, Shop("other")])
async def test_a_subagent_shares_those_of_its_parent_unless_it_has_its_own(shop: Shop | None) -> None:
    texts: list[str] = []

    def make(session: DepsWanted) -> Shop:
        texts.append(session.session_id)
        return Shop("ann")

    answered: list[str] = []

    @tool
    async def note(ctx: ToolContext[Shop]) -> None:  # noqa: ASYNC124 - a tool is async
        """Note the customer."""
        answered.append(ctx.deps.customer)

    child = SessionSpec(model=calls("note"), description="Notes.", tools=[note], deps=shop)
    task = call("task", {"agent": "clerk", "description": "note", "prompt": "Note."})
    model = ScriptedModel([say(calls=[task]), say(calls=[call("note")]), "Done."])
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, tools=[note], agents={"clerk": child}, deps=make)
        session = await supervisor.spawn(spec, "s")
        await session.ask("Go.")
    assert answered == ["ann" if shop is None else "other", "ann"]
    assert texts == ["s"]


async def test_a_subagent_without_them_is_refused_with_its_parent() -> None:
    child = SessionSpec(description="Notes.", tools=[balance])
    parent = SessionSpec(model="demo", agents={"lead": SessionSpec(description="Leads.", agents={"clerk": child})})
    async with open_supervisor() as supervisor:
        with pytest.raises(UsageError, check=coded("bad-deps"), match="`balance` wants"):
            await supervisor.spawn(parent)
        await supervisor.spawn(parent.but(deps=Shop("ann")))


async def test_calls_that_wait_are_cancelled_and_the_next_one_makes_them() -> None:
    waits = iter([math.inf, 0.0])

    async def make() -> Shop:
        await trio.sleep(next(waits))
        return Shop("ann")

    async with open_supervisor() as supervisor:
        model = ScriptedModel([say(calls=[call("balance"), call("balance")]), say(calls=[call("balance")]), "Done."])
        spec = SessionSpec(model=model, tools=[balance], deps=make, on_repeat_unknown="allow")
        session = await supervisor.spawn(spec)
        with trio.move_on_after(1):
            await session.ask("Go.")
        await session.abort()
        await session.ask("Go.")
        assert session.messages()[-2].text == "balance of ann"


async def test_nothing_shows_or_stores_them(caplog: pytest.LogCaptureFixture) -> None:
    canary = Canary()

    @tool(effect="unsafe")
    async def crash(ctx: ToolContext[Canary]) -> str:  # noqa: ASYNC124 - a tool is async
        """Crash."""
        raise RuntimeError(type(ctx.deps).__name__)

    spec = SessionSpec(model=calls("crash"), tools=[crash], deps=canary)
    journal = MemoryJournal()
    with caplog.at_level(logging.DEBUG):
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec, "s")
            await session.ask("Go.")
            assert "RuntimeError: Canary" in session.messages()[2].text
            assert "Canary" not in repr(spec)
            assert repr(ToolContext(deps=canary)) == repr(ToolContext())
            assert ToolContext(deps=canary) == ToolContext()
            assert "deps" not in repr(session.inspect())


async def test_a_program_gives_them_to_a_tool_that_it_calls() -> None:
    assert await balance(ToolContext(deps=Shop("ann"))) == "balance of ann"
    other = ToolContext(deps="ann")
    assert_type(other, ToolContext[str])
    with contextlib.suppress(AttributeError):
        await balance(other)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
