"""`Recovery`: which model gets the next request after errors of models and tools, and beside `ModelRouter`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Context, Continue, SessionHandle, SessionSpec, SwitchModel, open_supervisor
from agentrail.errors import BadOptions, TurnAborted
from agentrail.events import Event, PluginError, PluginEvent, RequestStart
from agentrail.hooks.actions import Emission
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.models import FrozenObject
from agentrail.plugins import AfterTool, AfterTurn, BeforeRequest, BudgetGuard, ModelRouter, OnToolError, Recovery
from agentrail.plugins.requests.recovery import LARGEST_OPTIONS, MAX_REASON, Fallen
from agentrail.testing import ScriptedModel, call, permanent, say, transient
from agentrail.tools import err
from agentrail.values.json import canonical, weight
from tests.each_case import each_case
from tests.kit import EMPTY, NOTHING_USED, Element, freeze
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import raising
from tests.runtime.world import all_events

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

DOWN = transient("no capacity")


@asynccontextmanager
async def session_of(scripts: Mapping[str, object], **spec: object) -> AsyncIterator[SessionHandle]:
    """Open a session of the first of some scripted models; the others can be switched to."""
    models = {
        name: ScriptedModel(list(cast("Iterable[Element]", script)), name=name) for name, script in scripts.items()
    }
    factories = {name: (lambda _, model=model: model) for name, model in models.items()}
    async with open_supervisor(models=factories, seed=1) as supervisor:
        yield await supervisor.spawn(SessionSpec(**{"model": next(iter(models)), **spec}))  # type: ignore[arg-type]


async def told(session: SessionHandle) -> list[Event]:
    """Return all events of *session* so far; no plugin has failed."""
    found = await all_events(session)
    assert not [event for event in found if isinstance(event, PluginError)]
    return found


async def asked(session: SessionHandle) -> list[str]:
    """Return the models to which requests were sent, in order."""
    return [event.model for event in await told(session) if isinstance(event, RequestStart)]


async def escalated(session: SessionHandle) -> list[tuple[str, object]]:
    """Return the events of the plugin: names and payloads, without `user_data`."""
    events = [event for event in await told(session) if isinstance(event, PluginEvent)]
    found: list[tuple[str, object]] = []
    for event in events:
        assert isinstance(event.payload, Mapping)
        found.append((event.name, {name: one for name, one in event.payload.items() if name != "user_data"}))
    return found


@in_virtual_time
async def test_after_errors_of_a_model_the_next_one_answers_and_it_is_told() -> None:
    scripts = {"main": [DOWN, DOWN], "spare": [DOWN, DOWN], "last": ["here I am"]}
    async with session_of(scripts, plugins=[Recovery(["spare", "last"])]) as session:
        reply = await session.ask("are you there?")
        assert reply.text == "here I am"
        assert await asked(session) == ["main", "main", "spare", "spare", "last"]
        assert await escalated(session) == [
            ("recovery_switched", {"from": "main", "to": "spare", "cause": "model", "reason": "no capacity"}),
            ("recovery_switched", {"from": "spare", "to": "last", "cause": "model", "reason": "no capacity"}),
        ]


@in_virtual_time
async def test_the_last_model_has_the_other_retries_and_the_end_of_the_chain_is_told_once() -> None:
    scripts = {"main": [DOWN] * 2, "spare": [DOWN] * 4}
    async with session_of(scripts, plugins=[Recovery("spare")]) as session:
        with pytest.raises(TurnAborted, match="no capacity"):
            await session.ask("are you there?")
        assert await asked(session) == ["main"] * 2 + ["spare"] * 4
        assert [name for name, _ in await escalated(session)] == ["recovery_switched", "recovery_exhausted"]


@in_virtual_time
async def test_a_turn_that_an_error_has_ended_is_followed_by_one_with_the_next_model() -> None:
    scripts = {"main": [permanent("the key was refused")], "spare": ["here I am"]}
    async with session_of(scripts, plugins=[Recovery(["spare"])]) as session:
        with pytest.raises(TurnAborted, match="key"):
            await session.ask("are you there?")
        assert (await session.ask("and now?")).text == "here I am"
        assert await asked(session) == ["main", "spare"]


@in_virtual_time
async def test_errors_that_do_not_follow_each_other_are_not_added_up() -> None:
    async with session_of({"main": [DOWN, "a", DOWN, "b"], "spare": []}, plugins=[Recovery(["spare"])]) as session:
        await session.ask("one")
        await session.ask("two")
        assert await asked(session) == ["main"] * 4


@in_virtual_time
async def test_a_new_turn_returns_to_the_first_model_and_its_options_in_time() -> None:
    scripts = {"main": [DOWN, DOWN, "back"], "spare": ["a", "b"]}
    plugins = [Recovery([("spare", {"temperature": 0.5})], return_after=60)]
    async with session_of(scripts, plugins=plugins, model_options={"max_tokens": 9}) as session:
        await session.ask("one")
        assert session.status().model == "spare"
        await session.ask("two")
        await trio.sleep(60)
        assert (await session.ask("three")).text == "back"
        assert await asked(session) == ["main", "main", "spare", "spare", "main"]
        assert (await escalated(session))[-1] == ("recovery_returned", {"from": "spare", "to": "main"})
        (model,) = {session.status().model}
        assert model == "main"


@pytest.mark.parametrize(("return_after", "third"), [(0, "main"), (None, "spare")])
@in_virtual_time
async def test_the_return_may_be_the_next_turn_or_never(return_after: float | None, third: str) -> None:
    scripts = {"main": [DOWN, DOWN, "x"], "spare": ["x", "x"]}
    async with session_of(scripts, plugins=[Recovery(["spare"], return_after=return_after)]) as session:
        await session.ask("one")
        await trio.sleep(10_000)
        await session.ask("two")
        assert (await asked(session))[-1] == third


def broken_calls(count: int) -> list[Element]:
    return [say(calls=[call("raising", {"number": number})]) for number in range(count)]


@in_virtual_time
async def test_after_failures_of_tools_in_a_row_another_model_goes_on() -> None:
    scripts: dict[str, list[Element]] = {"main": broken_calls(3), "spare": ["I can not"]}
    plugins = [Recovery(["spare"], after_tool_failures=3)]
    async with session_of(scripts, plugins=plugins, tools=[raising()]) as session:
        assert (await session.ask("do it")).text == "I can not"
        assert await asked(session) == ["main"] * 3 + ["spare"]
        ((name, payload),) = await escalated(session)
        assert name == "recovery_switched"
        assert isinstance(payload, dict)
        assert payload["cause"] == "tool"


@pytest.mark.parametrize("abort", [True, False])
@in_virtual_time
async def test_if_tools_fail_with_the_last_model_too_the_turn_is_aborted_with_a_report(*, abort: bool) -> None:
    scripts: dict[str, list[Element]] = {"main": broken_calls(2), "spare": [*broken_calls(2), "that is it"]}
    plugins = [Recovery(["spare"], after_tool_failures=2, abort=abort)]
    async with session_of(scripts, plugins=plugins, tools=[raising()], file_loop_abort=100) as session:
        if abort:
            with pytest.raises(TurnAborted, match=r"tools failed 2 times in a row with `spare`, and no model is left"):
                await session.ask("do it")
        else:
            assert (await session.ask("do it")).text == "that is it"
        assert [name for name, _ in await escalated(session)] == ["recovery_switched", "recovery_exhausted"]


# Beside others


@in_virtual_time
async def test_a_router_and_a_recovery_do_not_switch_to_and_fro() -> None:
    scripts = {
        "small": ["a", "b", "c"],
        "large": [DOWN, DOWN],
        "spare": ["d", say(calls=[call("unknown")]), "e", "f"],
    }
    router = ModelRouter([{"model": "large", "turn_gt": 3}], default_model="small")
    for plugins in ([router, Recovery(["spare"])], [Recovery(["spare"]), router]):
        async with session_of(scripts, plugins=plugins) as session:
            for _ in range(6):
                await session.ask("go on")
            assert await asked(session) == ["small"] * 3 + ["large"] * 2 + ["spare"] * 4


@in_virtual_time
async def test_a_new_choice_of_the_router_counts_and_begins_the_chain_anew() -> None:
    scripts = {"small": [DOWN, DOWN], "spare": ["a", DOWN, "d"], "large": [DOWN, DOWN, "x"]}
    router = ModelRouter([{"model": "large", "turn_gt": 1}])
    async with session_of(scripts, plugins=[router, Recovery(["spare"])]) as session:
        await session.ask("one")
        await session.ask("two")
        assert await asked(session) == ["small", "small", "spare", "large", "large", "spare", "spare"]


@in_virtual_time
async def test_a_switch_by_a_caller_begins_the_chain_anew() -> None:
    scripts = {"main": [DOWN, DOWN], "spare": ["a", "c"], "own": [DOWN, DOWN]}
    async with session_of(scripts, plugins=[Recovery(["spare"])]) as session:
        await session.ask("one")
        await session.switch_model("own")
        await session.ask("two")
        assert await asked(session) == ["main", "main", "spare", "own", "own", "spare"]


@in_virtual_time
async def test_an_unknown_model_is_refused_at_spawn_with_the_plugin_and_the_nearest_name() -> None:
    with pytest.raises(BadOptions, match=r"(?s)Recovery.*`spar`.*did you mean `spare`"):
        async with session_of({"main": [], "spare": []}, plugins=[Recovery(["spar"])]):
            pass


@in_virtual_time
async def test_a_budget_counts_the_attempts_with_other_models_too() -> None:
    scripts = {"main": [DOWN] * 2, "spare": ["never"]}
    async with session_of(scripts, plugins=[BudgetGuard(max_rounds=2), Recovery(["spare"])]) as session:
        with pytest.raises(TurnAborted, match="max_rounds"):
            await session.ask("are you there?")
        assert await asked(session) == ["main"] * 2


# Options and state


@each_case(
    [
        ({"models": []}, "its `models` is empty; give at least one"),
        ({"models": 3}, r"its `models` is 3; give a list of names"),
        ({"models": ["a", 3]}, r"its `models` has 3; give the name of a model, or a pair"),
        ({"models": [("a", 3)]}, "give the name of a model, or a pair"),
        ({"models": [" "]}, "give the name of a model, or a pair"),
        ({"models": [("a", {"x": object()})]}, "the options of `a` in its `models` are no JSON"),
        ({"models": "a", "after_attempts": 0}, "its `after_attempts` is 0; it must be a whole number from 1 on"),
        ({"models": "a", "after_attempts": None}, "its `after_attempts` is None"),
        ({"models": "a", "after_tool_failures": True}, "its `after_tool_failures` is True"),
        ({"models": "a", "return_after": -1}, "its `return_after` is -1"),
        ({"models": "a", "abort": 1}, "its `abort` is 1"),
    ]
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=problem):
        Recovery(**options)  # type: ignore[arg-type]


def test_models_are_given_as_any_sequence_of_names_and_pairs() -> None:
    with_options = Recovery(("a", ["b", {"temperature": 1}]))  # type: ignore[arg-type]  # as JSON has it
    assert with_options.models == (("a", EMPTY), ("b", FrozenObject(temperature=1)))
    assert Recovery("a") == Recovery(["a"]) == Recovery((("a", {}),))
    assert with_options.describe() == (
        "Go on with the next of some models after errors of the model in use, or of tools that it calls."
    )


def test_the_next_model_is_asked_after_so_many_failures() -> None:
    plugin, ctx = Recovery("spare"), Context(model="main")
    for failures, is_switched in ((0, False), (1, True), (2, True)):
        state = Fallen("main", failures=failures)
        attempt = plugin.before_request(BeforeRequest((), failures + 2, "down"), state, ctx)
        assert isinstance(attempt, SwitchModel) is is_switched
    for failures, is_switched in ((3, False), (4, True), (5, True)):
        run = plugin.after_tool(AfterTool("t", "c", err("no")), Fallen("main", tool_failures=failures), ctx)
        assert isinstance(run, SwitchModel) is is_switched


def test_a_turn_returns_to_the_first_model_and_its_options_so_many_seconds_after_the_switch() -> None:
    options = FrozenObject(max_tokens=9)
    state = Fallen("spare", home="main", home_options=options, since_ms=7)
    first, later = (
        [
            Recovery("spare").before_request(
                BeforeRequest(()), state, Context(model="spare", round=round_, now_ms=7 + ms)
            )
            for ms in (299_999, 300_000, 300_001)
        ]
        for round_ in (1, 2)
    )
    returned = SwitchModel("main", Fallen("main"), options).emitting(
        "recovery_returned", freeze({"from": "spare", "to": "main"})
    )
    assert first == [Continue(), returned, returned]
    assert later == [Continue()] * 3


@pytest.mark.parametrize("size", [MAX_REASON - 1, MAX_REASON, MAX_REASON + 1])
def test_so_many_characters_of_an_error_are_told(size: int) -> None:
    hook = BeforeRequest((), 2, "x" * size)
    action = Recovery("spare", after_attempts=1).before_request(hook, Fallen("main"), Context(model="main"))
    told = {"from": "main", "to": "spare", "cause": "model", "reason": "x" * min(size, MAX_REASON)}
    assert action.emits == (Emission("recovery_switched", freeze(told)),)


@pytest.mark.parametrize(("more", "home"), [(-1, "main"), (0, "main"), (1, "")])
def test_options_of_so_many_characters_are_kept_for_the_return(more: int, home: str) -> None:
    size = LARGEST_OPTIONS + more - weight(FrozenObject(stop=""))
    ctx = Context(model="main", model_options=FrozenObject(stop="x" * size))
    action = Recovery("spare", after_attempts=1).before_request(BeforeRequest((), 2, "down"), Fallen("main"), ctx)
    assert isinstance(action, SwitchModel)
    assert action.state == Fallen(
        "spare", index=0, home=home, home_options=ctx.model_options if home else EMPTY, since_ms=0
    )


NAMES = st.sampled_from(("m", "a", "b", "x" * 300))


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 5), NAMES, st.text(max_size=5).map(lambda text: text * 10_000)), max_size=30))
def test_whatever_happens_the_state_stays_small(moments: list[tuple[int, str, str]]) -> None:
    plugin = Recovery(["a", ("b", {"stop": ["."]})], after_attempts=1, after_tool_failures=1, return_after=0)
    state = plugin.init(Context())
    for number, (kind, model, text) in enumerate(moments):
        ctx = Context(model=model, model_options=FrozenObject(stop=text[:20_000]), now_ms=number * 1000)
        ended = AfterTurn(
            outcome="aborted",
            abort_kind="provider_error",
            abort_reason=text,
            messages_diff=(),
            token_usage_diff=NOTHING_USED,
            started_at_ms=0,
            ended_at_ms=1,
        )
        action = (
            plugin.before_request(BeforeRequest((), 1), state, ctx),
            plugin.before_request(BeforeRequest((), 2, text), state, ctx),
            plugin.on_tool_error(OnToolError(name="t", call_id="c", error=text, attempt=1), state, ctx),
            plugin.after_tool(AfterTool(name="t", call_id="c", result=err(text or "no")), state, ctx),
            plugin.after_turn(ended, state, ctx),
            plugin.on_options({}, state),
        )[kind]
        found = action if isinstance(action, Fallen) else action.state
        state = found if isinstance(found, Fallen) else state
        assert len(canonical(freeze(state.home_options))) < STATE_LIMIT // 2
        assert -1 <= state.index < 2
        if not isinstance(action, Fallen):
            assert all(len(canonical(freeze(one.payload))) < 5_000 for one in action.emits if isinstance(one, Emission))
