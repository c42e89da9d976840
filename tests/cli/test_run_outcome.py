"""The outcomes of `agentrail run`: what is shown to a person, and what programs get."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrail import HeldCall, Reply, errors
from agentrail.cli.output.screen import escaped
from agentrail.cli.running.run_outcome import (
    Outcome,
    RunEnding,
    RunTally,
    described,
    ending_of_error,
    ending_of_reply,
    held_ending,
    run_view,
)
from agentrail.errors import AgentrailError, TurnAborted
from agentrail.events import Envelope, Event, PluginError, StreamError
from agentrail.plugins.invisible_characters import visible
from agentrail.values.json import canonical
from tests.each_case import each_case
from tests.kit import freeze_object

TEXTS = st.text() | st.lists(
    st.sampled_from(["\u202e", "\u2066", "\x1b[2J", "\u200b", "\x85", "\U000e0041", "\u3164", '"', "\\", "tea"])
).map("".join)


def call_with(args: dict[str, object], *, kind: str = "approval", hint: str = "", tool: str = "pay") -> HeldCall:
    return HeldCall("s:a1", kind, "c1", tool, freeze_object(args), hint)


def tally_of(*events: Event) -> RunTally:
    tally = RunTally()
    for event in events:
        tally.take(Envelope("s", 1, 0, 0, 1, 1, event))
    return tally


@pytest.mark.long
@given(args=st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9) | st.lists(TEXTS, max_size=2), max_size=3))
@example(args={"a\u202eb": "\x00\x1b]0;x\x07\u2028"})
def test_arguments_are_shown_exactly_and_nothing_in_them_is_hidden(args: dict[str, object]) -> None:
    question = described(call_with(args))
    head, _, text = question.partition(" with ")
    assert head == "`pay` waits for approval"
    assert json.loads(text) == json.loads(canonical(freeze_object(args)))
    assert question.isprintable()
    assert visible(question) == question


@pytest.mark.long
@given(text=TEXTS)
def test_a_question_cannot_look_like_another(text: str) -> None:
    question = described(call_with({}, kind="question", hint=text, tool="ask\u202e"))
    assert question.startswith("`ask\\u202e` asks: ")
    assert question.isprintable()


def test_what_can_be_seen_stays_as_it_is() -> None:
    assert escaped("tea for Ådå: 茶 🍵 and \\n") == "tea for Ådå: 茶 🍵 and \\n"
    assert escaped("\U000e0041\n") == "\\udb40\\udc41\\u000a"


ENDINGS: list[tuple[AgentrailError, RunTally, Outcome]] = [
    (TurnAborted("p1", "user", "no"), RunTally(), Outcome.FAILED),
    (TurnAborted("p1", "stopped", "no"), RunTally(), Outcome.FAILED),
    (TurnAborted("p1", "loop", "8 calls"), RunTally(), Outcome.BUDGET),
    (TurnAborted("p1", "provider_error", "no"), tally_of(StreamError("LimitReached", "no")), Outcome.BUDGET),
    (TurnAborted("p1", "provider_error", "no"), tally_of(StreamError("KeyMissing", "no")), Outcome.PROVIDER),
    (TurnAborted("p1", "provider_error", "no"), RunTally(), Outcome.PROVIDER),
    (errors.KeyMissing("X"), RunTally(), Outcome.PROVIDER),
    (errors.SessionRefused("s", "Guard", "no"), RunTally(), Outcome.REFUSED),
    (errors.SessionRefused("s", "BudgetGuard", "max_usd=0 is used up"), RunTally(), Outcome.BUDGET),
    (errors.NoAnswer("p1", "length"), RunTally(), Outcome.BUDGET),
    (errors.NoAnswer("p1", "left"), RunTally(), Outcome.FAILED),
    (errors.UnknownModel("big", "`demo`"), RunTally(), Outcome.USAGE),
    (errors.SessionCrashed("s", "no"), RunTally(), Outcome.FAILED),
]


@each_case(ENDINGS)
def test_each_error_has_an_outcome(error: AgentrailError, tally: RunTally, outcome: Outcome) -> None:
    ending = ending_of_error(error, tally)
    assert ending.outcome is outcome
    assert ending.problem


def test_an_unknown_model_advises_a_command() -> None:
    error = errors.UnknownModel.among("demmo", ["demo"], {})
    assert ending_of_error(error, RunTally()).problem.endswith("; `agentrail models` tells about them")


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [("end", Outcome.DONE), ("superseded", Outcome.FAILED), ("length", Outcome.BUDGET), ("refused", Outcome.REFUSED)],
)
def test_each_stop_has_an_outcome(stop: str, outcome: Outcome) -> None:
    assert ending_of_reply(Reply("p1", stop), RunTally(), wants_object=False).outcome is outcome


def test_an_end_without_the_object_that_was_wanted_is_a_failure() -> None:
    ending = ending_of_reply(Reply("p1", "end"), RunTally(), wants_object=True)
    assert ending == RunEnding(Outcome.FAILED, "there is no answer that fits the schema: the turn ended (end)", "end")


def test_programs_get_all_of_it() -> None:
    tally = tally_of(StreamError("RateLimited", "slow down"), PluginError("Mine", "before_tool", "ValueError: no"))
    view = run_view(held_ending((call_with({"to": "ann"}),), "nobody is here to ask"), tally, "s-1")
    assert (view.outcome, view.exit_status, view.answer, view.stop_reason) == ("held", 3, None, "held")
    assert [(error.kind, error.message) for error in view.errors] == [
        ("RateLimited", "slow down"),
        ("PluginError", "Mine, before_tool: ValueError: no"),
    ]
    (waiting,) = view.held
    assert (waiting.args, waiting.session) == ({"to": "ann"}, "s-1")
    assert len({outcome.value for outcome in Outcome}) == len(Outcome)
