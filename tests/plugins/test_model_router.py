"""`ModelRouter`: which model gets a request, and which rules are refused."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Context, Continue, SwitchModel
from agentrail.errors import BadOptions
from agentrail.events import ModelSwitched, PluginError, PluginOptsUpdated
from agentrail.models import Json, Price, Usage
from agentrail.plugins import BeforeRequest, BudgetGuard, ModelRouter, ModelRule
from agentrail.plugins.requests.model_router import COMPARISONS, CONDITIONS, Chosen
from agentrail.testing import call, say
from tests.each_case import each_case
from tests.kit import EMPTY, freeze_object
from tests.plugins.test_recovery import asked, in_virtual_time, session_of, told
from tests.runtime.tools import quick

HOUR = 3_600_000


def chosen(rule: ModelRule, ctx: Context) -> bool:
    """Whether *rule* chooses its model in *ctx*."""
    action = ModelRouter([rule]).before_request(BeforeRequest(()), Chosen(), ctx)
    if isinstance(action, SwitchModel):
        assert (action.model, action.state) == ("x", Chosen("x"))
        return True
    assert action == Continue()
    return False


# Whole sessions


@in_virtual_time
async def test_the_first_rule_that_holds_chooses_the_model_and_no_other_switch_is_made() -> None:
    rules: list[ModelRule] = [
        {"model": "cheap", "turn_gt": 4},
        {"model": "large", "turn_gt": 2},
        {"model": "b", "turn_gt": 3},
    ]
    scripts = {"main": "ab", "large": "cd", "cheap": "ef", "b": ""}
    async with session_of(scripts, plugins=[ModelRouter(rules)]) as session:
        for _ in range(6):
            await session.ask("go on")
        assert await asked(session) == ["main"] * 2 + ["large"] * 2 + ["cheap"] * 2
        switches = [event for event in await told(session) if isinstance(event, ModelSwitched)]
        assert [(one.from_, one.to, one.by) for one in switches] == [
            ("main", "large", "ModelRouter"),
            ("large", "cheap", "ModelRouter"),
        ]


@in_virtual_time
async def test_within_a_turn_the_rounds_and_the_tokens_count() -> None:
    reads = say(calls=[call("read")], usage=Usage(100, 100))
    rules: list[ModelRule] = [{"model": "cheap", "tokens_gt": 500}, {"model": "large", "round_gt": 1}]
    scripts = {"main": [reads, "never"], "large": [reads, reads], "cheap": ["done", "well"]}
    async with session_of(scripts, plugins=[ModelRouter(rules, "main")], tools=[quick("read")]) as session:
        assert (await session.ask("go on")).text == "done"
        await session.ask("and on")
        assert await asked(session) == ["main", "large", "large", "cheap", "cheap"]


@in_virtual_time
async def test_money_and_what_is_left_of_it_count() -> None:
    prices = {name: Price(1.0, 1.0) for name in ("main", "large", "cheap")}
    answer = say("well", usage=Usage(1_000_000, 0))
    rules: list[ModelRule] = [{"model": "cheap", "budget_left_lt": 1.5}, {"model": "large", "cost_gt": 0.5}]
    scripts = {"main": [answer], "large": [answer, answer], "cheap": ["done"]}
    plugins = [ModelRouter(rules), BudgetGuard(max_usd=4.0)]
    async with session_of(scripts, plugins=plugins, prices=prices) as session:
        for _ in range(4):
            await session.ask("go on")
        assert await asked(session) == ["main", "large", "large", "cheap"]


@in_virtual_time
async def test_a_choice_of_a_caller_lasts_until_the_rules_choose_another_model() -> None:
    scripts = {"main": [], "small": "a", "own": "bc", "large": "d"}
    plugins = [ModelRouter([{"model": "large", "turn_gt": 3}], "small")]
    async with session_of(scripts, plugins=plugins) as session:
        await session.ask("one")
        await session.switch_model("own")
        for _ in range(3):
            await session.ask("go on")
        assert await asked(session) == ["small", "own", "own", "large"]


def test_a_retry_goes_to_the_same_model() -> None:
    router = ModelRouter((), "x")
    assert router.before_request(BeforeRequest((), 2, "no capacity"), Chosen(), Context()) == Continue()


@in_virtual_time
async def test_options_of_a_rule_go_to_the_provider_and_those_of_the_default_come_back() -> None:
    rules: list[ModelRule] = [{"model": "main", "options": {"reasoning_effort": "high"}, "round_gt": 1}]
    router = ModelRouter(rules, "main", {"reasoning_effort": "low"})
    scripts = {"main": ["a", say(calls=[call("read")]), "b", "c"]}
    async with session_of(scripts, plugins=[router], tools=[quick("read")]) as session:
        seen: list[Json] = []
        for _ in range(3):
            await session.ask("go on")
            seen.append(session.inspect().model_options.get("reasoning_effort"))
        assert seen == ["low", "high", "low"]


@in_virtual_time
async def test_new_rules_choose_at_the_next_request() -> None:
    scripts = {"main": "a", "large": "b"}
    async with session_of(scripts, plugins=[ModelRouter([{"model": "large", "turn_gt": 9}])]) as session:
        await session.ask("one")
        await session.update_plugin(ModelRouter, rules=[{"model": "large", "turn_gt": 1}])
        await trio.testing.wait_all_tasks_blocked()
        await session.ask("two")
        assert await asked(session) == ["main", "large"]
        assert all(one.success for one in await told(session) if isinstance(one, PluginOptsUpdated))


@in_virtual_time
async def test_an_unknown_model_is_refused_at_spawn_with_the_nearest_name() -> None:
    with pytest.raises(BadOptions, match=r"(?s)ModelRouter.*`larg`.*did you mean `large`"):
        async with session_of({"main": [], "large": []}, plugins=[ModelRouter((), "larg")]):
            pass


@in_virtual_time
async def test_an_unknown_model_that_comes_later_is_told_and_the_session_stays_with_its_own() -> None:
    async with session_of({"main": "a", "large": ""}) as session:
        await session.attach_plugin(ModelRouter((), "larg"))
        await session.ask("one")
        found: list[str] = []
        async with session.subscribe(since=0, types=[PluginError]) as events:
            async for envelope in events:
                assert isinstance(envelope.event, PluginError)
                found.append(envelope.event.error)
                break
        assert "it chose a model that cannot be used" in found[0]
        assert "did you mean `large`" in found[0]


# Rules


@each_case(
    [
        ({"turn_gt": 2}, Context(turn=2), False),
        ({"turn_gt": 2}, Context(turn=3), True),
        ({"cost_gt": 0}, Context(usage=Usage(1, 1)), False),
        ({"cost_gt": 0.5}, Context(usage=Usage(1, 1, cost_usd=0.6)), True),
        ({"budget_left_lt": 1}, Context(), False),
        ({"budget_left_lt": 1}, Context(budget_left=0.9), True),
        ({"token_budget_lt": 10}, Context(usage=Usage(50, 45)), False),
        ({"token_budget_lt": 10}, Context(usage=Usage(50, 45), user_data=freeze_object({"token_budget": 100})), True),
        ({"token_budget_lt": 10}, Context(user_data=freeze_object({"token_budget": "many"})), False),
        ({"time_of_day_in": (22, 6)}, Context(now_ms=22 * HOUR), True),
        ({"time_of_day_in": (22, 6)}, Context(now_ms=30 * HOUR - 1), True),
        ({"time_of_day_in": (22, 6)}, Context(now_ms=30 * HOUR), False),
        ({"time_of_day_in": (0, 24)}, Context(now_ms=24 * HOUR - 1), True),
        ({"time_of_day_in": [9, 17]}, Context(now_ms=17 * HOUR), False),
        ({"user_data": {"tier": "pro"}}, Context(user_data=freeze_object({"tier": "pro"})), True),
        ({"user_data": {"tier": "pro"}}, Context(user_data=freeze_object({"tier": "free"})), False),
        ({"user_data": {"tier": "pro", "seats": 1}}, Context(user_data=freeze_object({"tier": "pro"})), False),
        ({"user_data": {"tier": {"in": ["pro", "team"]}}}, Context(user_data=freeze_object({"tier": "team"})), True),
        ({"user_data": {"seats": {"gt": 3, "le": 9}}}, Context(user_data=freeze_object({"seats": 9})), True),
        ({"user_data": {"seats": {"gt": 3, "le": 9}}}, Context(user_data=freeze_object({"seats": 10})), False),
        ({"user_data": {"seats": {"lt": 3}}}, Context(user_data=freeze_object({"seats": "2"})), False),
        ({"user_data": {"seats": {"ge": 1}}}, Context(user_data=freeze_object({"seats": True})), False),
        ({"user_data": {"seats": 1}}, Context(user_data=freeze_object({"seats": True})), False),
        ({"user_data": {"tier": {"ne": "pro"}}}, Context(), True),
        ({"user_data": {"tier": None}}, Context(), True),
        ({"user_data": {"tier": {"eq": {"a": 1}}}}, Context(user_data=freeze_object({"tier": {"a": 1}})), True),
        ({"turn_gt": 0, "round_gt": 1}, Context(turn=1, round=1), False),
        ({"turn_gt": 0, "round_gt": 1}, Context(turn=1, round=2), True),
        ({"tokens_gt": 9}, Context(usage=Usage(5, 5)), True),
    ]
)
def test_a_rule_holds_if_all_its_conditions_do(rule: dict[str, object], ctx: Context, holds: bool) -> None:
    assert chosen({"model": "x", **rule}, ctx) is holds  # type: ignore[typeddict-item]


@each_case(
    [
        ({}, "it has neither `rules` nor a `default_model`"),
        ({"rules": {"model": "x"}}, "its `rules` is .*; give a list of rules"),
        ({"rules": "x"}, "give a list of rules"),
        ({"rules": ["x"]}, "its rule 1 is 'x'; give a mapping"),
        ({"rules": [{"model": "x"}]}, "its rule 1 has no condition"),
        ({"rules": [{"turn_gt": 1}]}, "its rule 1 names no `model`"),
        ({"rules": [{"model": "", "turn_gt": 1}]}, "its rule 1 has model='.*'; give the name of a model"),
        (
            {"rules": [{"model": "x", "turn_gt": 1}, {"model": "x", "turns_gt": 1}]},
            "its rule 2 has `turns_gt`, which is no condition; did you mean `turn_gt`",
        ),
        ({"rules": [{"model": "x", "turn_gt": "1"}]}, "turn_gt='1'; give a number"),
        ({"rules": [{"model": "x", "turn_gt": True}]}, "turn_gt=True; give a number"),
        ({"rules": [{"model": "x", "cost_gt": float("nan")}]}, "its rule 1 is no JSON"),
        ({"rules": [{"model": "x", "time_of_day_in": (6, 6)}]}, "give two different hours in UTC"),
        ({"rules": [{"model": "x", "time_of_day_in": (6, 25)}]}, "give two different hours in UTC"),
        ({"rules": [{"model": "x", "time_of_day_in": 6}]}, "give two different hours in UTC"),
        ({"rules": [{"model": "x", "user_data": {}}]}, "give a mapping of names"),
        (
            {"rules": [{"model": "x", "user_data": {"a": {"gtt": 1}}}]},
            "`a` has the comparison `gtt`; did you mean `gt`",
        ),
        ({"rules": [{"model": "x", "user_data": {"a": {"gt": "1"}}}]}, "`a` needs a number for `gt`"),
        ({"rules": [{"model": "x", "user_data": {"a": {"in": "b"}}}]}, "`a` needs a list of values for `in`"),
        ({"rules": [{"model": "x", "user_data": {"a": {}}}]}, "`a` has no comparison"),
        ({"rules": [{"model": "x", "options": 1, "turn_gt": 1}]}, "options=1; give a mapping of options"),
        ({"default_model": 3}, "its `default_model` is 3"),
        ({"default_model": " "}, "its `default_model` is ' '"),
        ({"default_model": "x", "default_options": 3}, "its `default_options` is 3"),
        ({"rules": [{"model": "x", "turn_gt": 1}], "default_options": {"a": 1}}, "name the model that they are for"),
    ]
)
def test_rules_that_cannot_be_used_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=problem):
        ModelRouter(**options)  # type: ignore[arg-type]


def test_all_that_rules_name_is_told() -> None:
    router = ModelRouter(
        [{"model": "b", "turn_gt": 1}, {"model": "a", "turn_gt": 2}, {"model": "b", "round_gt": 2}], "c"
    )
    assert router.models_named == (("b", EMPTY), ("a", EMPTY), ("b", EMPTY), ("c", EMPTY))
    assert router.describe() == (
        "Choose the model of each request by rules: the first rule counts whose conditions all hold."
    )
    assert set(CONDITIONS) == set(ModelRule.__annotations__) - {"model", "options"}


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.sampled_from((*COMPARISONS, *CONDITIONS, "model", "a")), one),
        max_leaves=6,
    )
)
def test_whatever_is_given_as_a_rule_is_a_rule_or_refused(found: object) -> None:
    given_rule = {"model": "x", **found} if isinstance(found, dict) else found
    try:
        router = ModelRouter([given_rule])  # type: ignore[list-item]
    except BadOptions:
        return
    for data in ({}, {"a": 1}, {"a": "b", "token_budget": 3}):
        action = router.before_request(BeforeRequest(()), Chosen(), Context(user_data=freeze_object(data)))
        assert isinstance(action, Continue | SwitchModel)
    assert router.default_options == EMPTY
