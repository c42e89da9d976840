"""The budget of the context: what counts, where the window comes from, and when a compaction begins."""

from __future__ import annotations

import pytest

from agentrail import Options, State
from agentrail.core.context_window import budget_of, is_due, kept_chars, layers_of, measured, overhead, room, tokens_of
from agentrail.core.system_prompt import MODES, split
from agentrail.core.vocabulary.inputs import StreamEnded
from agentrail.core.vocabulary.state import AttachedTool, Measured
from agentrail.hooks.ruling import DYNAMIC, ENVIRONMENT, MEMORY, SKILLS, Section
from agentrail.models import AssistantMessage, History, Message, Response, Text, Usage, UserMessage
from agentrail.tools import ToolSpec, ok
from tests.cells.bench import Bench, call
from tests.cells.scenes import executing, idle
from tests.kit import Setup, freeze_object
from tests.opcodes import counted_opcodes


def user_message(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def state(*messages: Message, system: str = "", model: str = "m", **options: object) -> State:
    setup = Setup(system, Options().but(**options))
    return State("s", setup, model, history=History(messages))


def test_the_window_is_the_option_else_that_of_the_table_else_assumed() -> None:
    assert budget_of(state(model="openai:gpt-4"))[:2] == (8_192, False)
    assert budget_of(state(model="mistral:magistral-small"))[:2] == (40_000, False)
    assert budget_of(state(model="openai:gpt-4", context_window=100))[:2] == (100, False)
    assert budget_of(state(model="ollama:m"))[:2] == (32_000, True)


@pytest.mark.parametrize(
    ("trigger_at", "to", "trigger", "target"),
    [(0.8, 0.5, 800, 500), (1, 1, 1000, 1000), (300, 0.5, 300, 300), (0.9, 200, 900, 200), (5000, 4000, 1000, 1000)],
)
def test_trigger_and_target_are_shares_or_tokens(trigger_at: float, to: float, trigger: int, target: int) -> None:
    budget = budget_of(state(context_window=1000, compact_at=trigger_at, compact_to=to))
    assert (budget.trigger, budget.target) == (trigger, target)


def test_system_prompt_sections_tools_and_the_form_of_answers_count() -> None:
    plain = state(user_message("x" * 400))
    assert tokens_of(plain) == 100
    tool = ToolSpec("look", "y" * 36, freeze_object({"type": "object", "properties": {}}))
    full = plain.but(
        setup=plain.setup.but(system="s" * 80),
        sections=(Section("a", "z" * 40),),
        tools={"look": AttachedTool(tool, 0)},
    )
    assert overhead(full) > 160
    assert tokens_of(full) == (400 + overhead(full)) // 4
    assert room(full, tokens_of(full)) == pytest.approx(400, abs=4)


@pytest.mark.parametrize("mode", MODES)
def test_the_sections_that_the_mode_sends_count_and_no_others(mode: str) -> None:
    layers = (ENVIRONMENT, SKILLS, MEMORY, DYNAMIC)
    sections = tuple(Section(layer, "z" * 10**index, layer) for index, layer in enumerate(layers))
    plain = state().but(setup=Setup(prompt_mode=mode))
    sent = sum(len(text) for pairs in split(sections, mode) for _, text in pairs)
    assert overhead(plain.but(sections=sections)) - overhead(plain) == sent


@pytest.mark.parametrize(("tokens", "believed"), [(100_799, True), (100_801, False), (2**53, False)])
def test_a_count_that_cannot_be_that_of_the_context_is_not_believed(tokens: int, believed: bool) -> None:
    counted = measured(state(user_message("x" * 400)), Usage(tokens, 0))
    assert counted == (Measured(tokens, 400) if believed else None)


def test_each_layer_has_its_share_of_the_whole_as_the_provider_counts_it() -> None:
    tool = ToolSpec("look", "y" * 34)
    full = state(user_message("x" * 4_000), system="s" * 400).but(
        sections=(
            Section("where", "e" * 200, "environment"),
            Section("can", "k" * 80, "skills"),
            Section("AGENTS.md", "m" * 120, "memory"),
            Section("plan", "z" * 160),
        ),
        tools={"look": AttachedTool(tool, 0)},
    )
    assert layers_of(full) == {"tools": 10, "system": 150, "skills": 20, "memory": 30, "history": 1_000, "dynamic": 40}
    assert sum(layers_of(full).values()) == tokens_of(full)
    twice = full.but(token_count=Measured(2 * tokens_of(full), overhead(full) + full.history.size))
    assert layers_of(twice) == {layer: 2 * tokens for layer, tokens in layers_of(full).items()}
    without = full.but(setup=full.setup.but(prompt_mode="minimal"))
    assert [layers_of(without)[layer] for layer in ("skills", "memory", "dynamic")] == [0, 0, 0]


def test_the_count_of_the_last_response_is_the_base_and_what_came_since_is_estimated() -> None:
    old = state(user_message("x" * 400))
    base = measured(old, Usage(5_000, 200))
    assert base == Measured(5_200, 400)
    assert measured(old, Usage(0, 200)) is None
    counted = old.but(token_count=base)
    assert tokens_of(counted) == 5_200
    assert tokens_of(counted.but(history=counted.history.and_(user_message("y" * 80)))) == 5_220
    assert tokens_of(counted.but(sections=(Section("a", "z" * 40),))) == 5_210


def test_a_large_count_also_says_how_many_characters_a_token_has() -> None:
    counted = state(user_message("字" * 20_000)).but(token_count=Measured(20_000, 20_000))
    assert tokens_of(counted.but(history=counted.history.and_(user_message("字" * 100)))) == 20_100
    assert room(counted, 10_000) == 10_000, "a token is one character here, and not four"


def test_a_compaction_that_is_asked_for_leaves_less_than_there_is() -> None:
    small = state(user_message("x" * 400), user_message("y" * 400))
    assert kept_chars(small) == 400
    assert kept_chars(small.but(setup=small.setup.but(options=Options(compact_to=10_000)))) == 400


@pytest.mark.parametrize(
    ("model", "window", "crowded", "due"),
    [
        ("m", 1_600, 0, 1_280),
        ("m", 1_600, 1_250, 1_350),
        ("m", 1_600, 900, 1_280),
        ("m", 1_600, 1_281, 1_280),  # left when the window was larger: it says nothing of this one
        ("m", None, 40_000, 42_000),
        ("m", None, 0, 25_600),
    ],
)
def test_after_a_compaction_that_missed_its_target_the_next_one_waits(
    model: str, window: int | None, crowded: int, due: int
) -> None:
    for tokens, expected in ((due, False), (due + 1, True)):
        found_state = state(user_message("x" * 4 * tokens), model=model, context_window=window).but(
            tokens_after_compaction=crowded
        )
        assert is_due(found_state) == expected


def test_a_compaction_is_due_within_the_window() -> None:
    found_state = state(user_message("x" * 4 * 1_601), context_window=1_600, compact_at=1.0, compact_to=0.5)
    assert is_due(found_state.but(tokens_after_compaction=1_590))


def test_a_response_is_the_base_of_the_next_round() -> None:
    bench = idle(options=Options(context_window=10_000))
    bench.prompt()
    bench.send(StreamEnded(bench.request_id, Response((Text("hi"),), usage=Usage(7_900, 50))))
    assert bench.state.token_count is not None
    assert tokens_of(bench.state) == 7_950
    bench.prompt("x" * 400)
    assert bench.state.compaction is not None
    assert bench.state.compaction.reason == "about 8050 tokens of 10000"


def test_what_a_tool_has_returned_counts_before_the_next_request() -> None:
    bench = executing(call("look", path="a"), options=Options(context_window=200))
    bench.returns("c3", ok("x" * 800))
    assert bench.state.compaction is not None


def test_to_know_the_tokens_takes_no_longer_with_a_long_history() -> None:
    def cost(messages: int) -> int:
        long = state(*[AssistantMessage((Text("word"),)) for _ in range(messages)]).but(token_count=Measured(5, 20))
        budget_of(long)  # the window is looked up once
        with counted_opcodes() as counted:
            budget_of(long)
            tokens_of(long)
        return counted[0]

    assert cost(10) == cost(10_000)


def test_a_bench_without_options_is_compacted_at_last() -> None:
    bench = Bench()
    bench.prompt("x" * 102_000)
    assert bench.state.compaction is None
    bench = Bench()
    bench.prompt("x" * 103_000)
    assert bench.state.compaction is not None, "it is on by default"
