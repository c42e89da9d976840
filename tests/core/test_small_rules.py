"""Rules of the machine that are functions of their own: what they return, for what, and at the edges."""

import re
from datetime import date, timedelta

import pytest

from agentrail import Context, Continue, Plugin
from agentrail.core.audit import differences
from agentrail.core.machine.tool_results import limited
from agentrail.core.system_prompt import dated, environment_of
from agentrail.core.vocabulary.changes import fold
from agentrail.core.vocabulary.effects import ReportStart, StartCall
from agentrail.core.vocabulary.errors_as_data import data_of, made_of
from agentrail.errors import (
    AgentrailError,
    Busy,
    PluginRefused,
    RefusedError,
    SessionRefused,
    UnknownPlugin,
    UsageError,
)
from agentrail.events import TodoChange
from agentrail.journals import Difference
from agentrail.models import (
    AssistantMessage,
    Data,
    FrozenObject,
    Image,
    Message,
    Origin,
    Part,
    Text,
    ToolMessage,
    UserMessage,
)
from agentrail.testing.probe_plugins import Asker
from agentrail.tools import Effect, SetTodos, Todo
from tests.cells.bench import plug
from tests.core.driving import answer, ask_for_calls, call, events, hello, results, session
from tests.kit import AbortSent, Phase, Refused, StopSent, TimerFired, ToolReturned
from tests.slices import planned

IMAGE = Image("image/png", "AAAA")


@pytest.mark.parametrize(
    ("parts", "most", "kept_parts"),
    [
        ((Text("abc"), Text("def")), 6, (Text("abc"), Text("def"))),
        ((Text("abc"), Text("def")), 5, (Text("abc"), Text("de"), Text("\n[cut: 5 of 6 characters shown]"))),
        ((Text("abc"), Text("def")), 3, (Text("abc"), Text("\n[cut: 3 of 6 characters shown]"))),
        ((Text("abc"), Text("def")), 2, (Text("ab"), Text("\n[cut: 2 of 6 characters shown]"))),
        ((Text("abc"), IMAGE), 2, (Text("ab"), IMAGE, Text("\n[cut: 2 of 3 characters shown]"))),
        ((Data(FrozenObject(a=1)),), 3, (Text('{"a'), Text("\n[cut: 3 of 7 characters shown]"))),
    ],
)
def test_a_result_is_cut_at_its_limit(parts: tuple[Part, ...], most: int, kept_parts: tuple[Part, ...]) -> None:
    assert limited(parts, most) == kept_parts


# Compaction without a model

FIRST = UserMessage((Text("what to do"),), Origin.PROMPT)
PROMPT = UserMessage((Text("prompt"),), Origin.PROMPT)
ANSWER = AssistantMessage((Text("answer"),))
RESULT = ToolMessage("c1", "look", (Text("result"),))
NOTICE = UserMessage((Text("gone"),), Origin.NOTICE)


@pytest.mark.parametrize(
    ("messages", "keep", "remaining_messages"),
    [
        ((ANSWER, ANSWER, ANSWER), 0, (NOTICE, ANSWER)),
        ((FIRST, ANSWER, PROMPT, ANSWER), 0, (NOTICE, PROMPT, ANSWER)),
        ((FIRST, ANSWER, PROMPT, ANSWER), 25, (NOTICE, ANSWER, PROMPT, ANSWER)),
        ((FIRST, ANSWER, ANSWER, ANSWER, ANSWER, PROMPT, ANSWER), 40, (FIRST, NOTICE, ANSWER, PROMPT, ANSWER)),
        ((FIRST, ANSWER, RESULT, PROMPT), 12, (NOTICE, PROMPT)),
        ((RESULT, ANSWER, PROMPT), 100, (NOTICE, ANSWER, PROMPT)),
        ((PROMPT, ANSWER), 0, (PROMPT, ANSWER)),
        ((), 0, ()),
    ],
)
def test_the_oldest_rounds_go_until_the_rest_fits(
    messages: tuple[Message, ...], keep: int, remaining_messages: tuple[Message, ...]
) -> None:
    plan = planned(messages, keep)
    assert plan.with_notice("gone") == remaining_messages
    assert plan.leaving(messages) == tuple(messages[index] for index in sorted(plan.removed))


# Errors as data


def test_an_error_is_data_and_is_made_of_it_again() -> None:
    for error, name, facts in (
        (Busy("compact"), "Busy", ("compact",)),
        (AgentrailError("one", "two"), "AgentrailError", ("one", "two")),
        (RefusedError(), "RefusedError", ()),
        (PluginRefused(object()), "PluginRefused", ("a `object`", "")),  # type: ignore[arg-type]  # a plugin's error
        (type("Own", (PluginRefused,), {})("no", "P"), "PluginRefused", ("no", "P")),
    ):
        assert data_of(error) == (name, facts)
        again = made_of(name, facts)
        assert (type(again).__name__, again.args) == (name, facts)
        assert Refused.of(error) == Refused(name, facts)


def test_data_of_an_error_with_a_code_is_as_if_it_had_a_class() -> None:
    stored = Refused("TaskDone", ("s.1",))
    assert stored.error == UsageError("task-done", "s.1")
    assert Refused.of(stored.error) == stored


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("TaskDone", (), "names no error of ours"),
        ("Nothing", (), "names no error of ours"),
        ("Busy", (5,), "Expected `str`, got `int` - at `$.facts[0]`"),
        ("ReplayDiffers", ("s", "x", "what"), "Expected `int`, got `str` - at `$.facts[1]`"),
        ("Busy", (), "Expected `array` of length 1, got 0 - at `$.facts`"),
    ],
)
def test_data_of_no_error_is_refused(name: str, facts: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Refused(name, facts)


# Aborts


def test_an_abort_that_does_less_is_covered_and_two_are_joined() -> None:
    less, more = AbortSent(kill_tools="none"), AbortSent("stop", "all", clear_queue=True)
    assert more.covers(less)
    assert more.covers(more)
    assert not less.covers(more)
    assert not AbortSent(kill_tools="all").covers(AbortSent(clear_queue=True))
    assert not AbortSent(clear_queue=True).covers(AbortSent(kill_tools="all"))
    assert less.joined(more) == AbortSent("stop", "all", clear_queue=True)
    assert more.joined(less.but(reason="other")) == AbortSent("stop", "all", clear_queue=True)
    assert less.joined(less) == less


# What a session tells of itself


def test_the_state_of_a_plugin_is_found_by_its_key_or_class() -> None:
    class Counts(Plugin[int]):
        def init(self, ctx: object) -> int:
            return 7

    world = session(plug("Other", first="state"), Counts())
    assert world.state.plugin_state("Other") == "state"
    assert world.state.plugin_state("Counts") == world.state.plugin_state(Counts) == 7
    with pytest.raises(UnknownPlugin):
        world.state.plugin_state("Count")


def test_a_tool_may_replace_the_list_of_things_to_do() -> None:
    world = session()
    ask_for_calls(world, call("read"))
    todos = (Todo("look", "done"), Todo("tell"))
    step = world.apply(ToolReturned("c3", 1, Effect(SetTodos(todos))))
    assert (world.state.todos, events(step)[0]) == (todos, TodoChange(todos))
    assert results(world.state) == ["the list was updated"]


def test_a_session_without_tools_says_so() -> None:
    world = session(tools=())
    ask_for_calls(world, call("read"))
    assert results(world.state) == ["there is no tool `read`; the tools are: none"]


def test_an_audit_shows_a_difference_from_where_it_begins() -> None:
    world = session()
    old = world.state
    world.apply(hello())
    record = world.records[-1]
    long = int(f"{world.state.last_id}" * 300)
    changed = record.but(change=record.change.but(last_id=long))
    after = fold(old, changed.change)
    actual = [Difference(2, "state.last_id", f"{long}", f"{world.state.last_id}")]
    assert list(differences(old, after, changed)) == actual
    after = after.but(last_id=-1, title="a" * 100 + "b" * 500)
    titled, _ = differences(old, after, record)
    assert titled == Difference(2, "state.title", "'" + "a" * 100 + "b" * 299, "''")


def test_a_context_that_a_test_makes_is_that_of_a_session_before_its_first_turn() -> None:
    context = Context()
    assert (context.turn, context.round, context.now_ms, context.total_tokens) == (0, 0, 0, 0)
    assert (context.cost_usd, context.budget_left, context.price_known) == (None, None, False)


# What a phase allows


def test_a_question_about_a_response_that_takes_too_long_lets_the_calls_start() -> None:
    world = session(Asker("after_response"))
    ask_for_calls(world, call("read"))
    (ask_id,) = world.out.live_asks
    world.now += 10_000
    step = world.apply(TimerFired(f"ask:{ask_id}"))
    assert [effect.name for effect in step.effects if isinstance(effect, StartCall)] == ["read"]
    assert world.state.phase is Phase.EXECUTING_TOOLS


def test_a_session_that_is_stopped_while_a_plugin_asks_at_its_start_does_not_start() -> None:
    world = session(Asker("session_start"))
    assert (world.state.is_starting, world.state.phase) == (True, Phase.RUNNING)
    step = world.apply(StopSent("enough"))
    refused = SessionRefused("s", "an abort", "enough")
    assert [effect for effect in step.effects if isinstance(effect, ReportStart)] == [ReportStart(Refused.of(refused))]
    assert world.state.phase is Phase.ENDED


def test_a_price_is_not_known_of_a_model_that_has_none() -> None:
    entry: list[bool] = []

    def note(_hook: object, _state: object, ctx: Context) -> object:
        entry.append(ctx.price_known)
        return Continue()

    world = session(plug("Notes", before_prompt=note))
    world.apply(hello())
    answer(world, text="bye")
    world.state = world.state.but(priced_models=frozenset({world.state.model}))
    world.apply(hello("again"))
    assert entry == [False, True]


def test_the_date_that_a_model_is_told_is_that_of_the_calendar() -> None:
    began = [environment_of("Working folder: /w", 0)]
    first = date(1970, 1, 1)
    ends = [(date(year, 3, 1) - first).days + days for year in (2000, 2024, 2026, 2100, 2400) for days in (-1, 0)]
    for day in [*range(1, 160_000, 41), *ends]:
        (report,) = dated(began, day * 86_400_000)
        assert report.text == f"Today is {first + timedelta(days=day)} (UTC)."
