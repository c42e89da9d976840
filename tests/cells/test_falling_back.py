"""Chains of models: when the next model is used, for how long, and what a switch changes."""

from __future__ import annotations

from typing import Final

import pytest

from agentrail import Context, Continue, Options, SwitchModel
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.effects import SetTimer, StartRequest
from agentrail.core.vocabulary.inputs import StreamCut, StreamEnded, StreamStalled
from agentrail.core.vocabulary.options import Spare
from agentrail.events import (
    AgentAbort,
    Event,
    ModelEffective,
    ModelOptionsChanged,
    ModelSwitched,
    RequestStart,
    Retry,
    StreamError,
    TitleGenerated,
)
from agentrail.events import StreamStalled as StreamStalledEvent
from agentrail.models import Failure, FailureKind, FrozenObject, Partial, Response, Text, Usage
from agentrail.plugins import AnyPlugin, BeforeRequest, Hook
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import NOW, Bench, plug, ruled
from tests.cells.scenes import cut, out, request, turn
from tests.kit import DONE, EMPTY, Phase

BUSY: Final = Failure(FailureKind.TRANSIENT, "Overloaded", "no capacity")
GONE: Final = Failure(FailureKind.PERMANENT, "ModelMissing", "no such model", here_alone=True)
WRONG: Final = Failure(FailureKind.PERMANENT, "KeyRefused", "who are you?")
LONG: Final = Failure(FailureKind.OVERFLOW, "ContextOverflow", "too many tokens")
MILD: Final = FrozenObject(temperature=0.5)
SPARES: Final = (Spare("n", MILD), Spare("o"))


def chained(*plugins: AnyPlugin, options: Options | None = None, spares: tuple[Spare, ...] = SPARES) -> Bench:
    """Return a session that has sent a request to the first model of a chain."""
    bench = Bench(*plugins, options=options)
    bench.state = bench.state.but(fallbacks=spares)
    bench.prompt()
    return bench


def breaks(bench: Bench, failure: Failure = BUSY) -> None:
    bench.send(StreamCut(bench.request_id, NOTHING_YET, failure), random=1.0)


def requested_models(bench: Bench) -> list[str]:
    """Return the models to which requests were sent, in order."""
    return [event.model for got in bench.got for event in got.events if isinstance(event, RequestStart)]


def last_request(bench: Bench) -> StartRequest:
    (found_effect,) = (effect for effect in bench.got[-1].step.effects if isinstance(effect, StartRequest))
    return found_effect


def test_after_two_attempts_the_next_model_is_asked_with_its_own_options() -> None:
    used = Usage(5, 1)
    bench = chained()
    breaks(bench)
    assert bench.got[-1].events == [Retry(1, 2_000, "no capacity")]
    bench.fires("retry")
    bench.send(StreamCut("r3", Partial("so far", usage=used), BUSY)).expect_only(
        events=[
            Retry(2, 0, "no capacity", dropped_text=True),
            ModelSwitched("m", "n", provider_opts_changed=True, reason="Overloaded: no capacity"),
        ],
        effects=[SetTimer("retry", bench.now)],
        phase=Phase.RUNNING,
        request=None,
        usage=used,
        turn=turn(model="n", options=MILD, spares=SPARES[1:], attempt=2, failed_over=2, last_error="no capacity"),
    )
    old = bench.state
    bench.fires("retry").expect_only(
        ids=1,
        events=[ModelEffective("n"), RequestStart("r4", "n", 1, 3)],
        effects=[request(old, "r4", model="n", options=MILD)],
        rulings=ruled("before_request"),
        turn=turn(model="n", options=MILD, spares=SPARES[1:], attempt=3, failed_over=2, last_error="no capacity"),
        last_request_model=("n", MILD),
        request=out("r4"),
    )


def test_the_last_model_has_all_its_retries_and_then_the_turn_is_aborted() -> None:
    bench = chained()
    while bench.state.turn is not None:
        breaks(bench)
        if bench.state.turn is not None:
            bench.fires("retry")
    assert requested_models(bench) == ["m"] * 2 + ["n"] * 2 + ["o"] * 6
    assert bench.got[-1].events == [
        StreamError("Overloaded", "no capacity"),
        AgentAbort("p1", "provider_error", "no capacity"),
    ]
    assert (bench.state.model, bench.state.fallbacks) == ("m", SPARES)


def test_the_back_off_begins_anew_with_each_model() -> None:
    bench = chained(options=Options(fallback_after=3, max_retries=2), spares=SPARES[:1])
    delays = []
    for _ in range(5):
        breaks(bench)
        delays += [event.delay_ms for event in bench.got[-1].events if isinstance(event, Retry)]
        bench.fires("retry")
    assert delays == [2_000, 4_000, 0, 2_000, 4_000]


def test_without_retries_the_next_model_is_asked_at_once() -> None:
    bench = chained(options=Options(max_retries=0))
    breaks(bench)
    bench.fires("retry")
    breaks(bench)
    bench.fires("retry")
    assert requested_models(bench) == ["m", "n", "o"]


def test_who_asks_to_wait_longer_than_a_back_off_ever_is_is_not_waited_for() -> None:
    bench = chained()
    breaks(bench, BUSY.but(retry_after=60.0))
    assert bench.got[-1].events == [Retry(1, 60_000, "no capacity")]
    bench = chained()
    breaks(bench, BUSY.but(retry_after=61.0))
    bench.fires("retry")
    assert requested_models(bench) == ["m", "n"]


def test_without_a_network_a_chain_is_given_up_within_five_seconds() -> None:
    unreached = BUSY.but(unreached_ms=100)
    bench = chained()
    delays = []
    breaks(bench, unreached)
    while bench.state.turn is not None:
        delays += [event.delay_ms for event in bench.got[-1].events if isinstance(event, Retry)]
        bench.fires("retry")
        breaks(bench, unreached)
    assert delays == [500, 0, 500, 0, 500, 1_000, 2_000]
    assert requested_models(bench) == ["m"] * 2 + ["n"] * 2 + ["o"] * 4


def test_the_next_model_is_asked_at_once_if_the_connection_to_one_takes_long_to_fail() -> None:
    bench = chained()
    breaks(bench, BUSY.but(unreached_ms=5_000))
    bench.fires("retry")
    assert requested_models(bench) == ["m", "n"]


def test_a_model_that_is_not_there_is_not_asked_again() -> None:
    bench = chained()
    breaks(bench, GONE)
    bench.fires("retry")
    assert requested_models(bench) == ["m", "n"]
    assert last_request(bench).request.options == MILD


@pytest.mark.parametrize("failure", [WRONG, GONE])
def test_a_mistake_is_not_hidden_and_the_end_of_the_chain_is_the_end(failure: Failure) -> None:
    bench = chained(spares=() if failure is GONE else SPARES)
    breaks(bench, failure)
    assert bench.got[-1].events == [
        StreamError(failure.error, failure.message),
        AgentAbort("p1", "provider_error", failure.message),
    ]


def test_a_context_that_is_too_long_is_made_shorter_for_the_same_model() -> None:
    bench = chained()
    breaks(bench, LONG)
    assert bench.state.turn is not None
    assert (bench.state.turn.model, bench.state.compaction is not None) == ("m", True)


def test_a_stall_counts_as_an_attempt() -> None:
    bench = chained(options=Options(fallback_after=1, stall_limit=1))
    problem = "no chunk for 30 s (stall 1 of this request)"
    bench.send(StreamStalled("r2", 30.0)).expect_only(
        events=[
            StreamStalledEvent(30.0, 1),
            Retry(1, 0, problem),
            ModelSwitched("m", "n", provider_opts_changed=True, reason=f"Stalled: {problem}"),
        ],
        effects=[cut("r2"), SetTimer("retry", NOW)],
        phase=Phase.RUNNING,
        request=None,
        turn=turn(model="n", options=MILD, spares=SPARES[1:], failed_over=1, last_error=problem),
    )


def test_the_turn_stays_with_the_model_it_fell_back_to_and_the_next_turn_begins_with_the_first() -> None:
    bench = chained()
    breaks(bench, GONE)
    bench.fires("retry")
    bench.answers("")  # nothing: it is asked once more
    bench.answers("done")
    assert bench.state.turn is None
    bench.prompt()
    assert requested_models(bench) == ["m", "n", "n", "m"]
    effective, started = bench.got[-1].events[-2:]
    assert (effective, started) == (ModelEffective("m"), RequestStart(bench.request_id, "m", 3, 1))
    assert bench.state.turn is not None
    assert bench.state.turn.spares == SPARES


def test_a_switch_replaces_the_chain_and_the_open_turn_keeps_its_own() -> None:
    bench = chained()
    bench.send(SwitchModelSent("x", EMPTY, (Spare("y"),), frozenset({"x"}))).expect_only(
        answer=DONE,
        events=[ModelSwitched("m", "x", provider_opts_changed=False)],
        model="x",
        fallbacks=(Spare("y"),),
        priced_models=frozenset({"x"}),
    )
    breaks(bench, GONE)
    bench.fires("retry")
    bench.answers("done")
    bench.prompt()
    breaks(bench, GONE)
    bench.fires("retry")
    assert requested_models(bench) == ["m", "n", "x", "y"]


def test_the_same_model_with_another_chain_is_no_event() -> None:
    bench = Bench()
    bench.send(SwitchModelSent("m", EMPTY, SPARES)).expect_only(answer=DONE, fallbacks=SPARES)


@pytest.mark.parametrize(
    ("spare", "events"),
    [
        (Spare("m"), []),
        (
            Spare("m", FrozenObject(base_url="http://other")),
            [ModelOptionsChanged("m", None, "Overloaded: no capacity")],
        ),
        (Spare("n"), [ModelSwitched("m", "n", provider_opts_changed=False, reason="Overloaded: no capacity")]),
    ],
    ids=repr,
)
def test_a_fallback_to_the_same_model_tells_of_its_options_alone(spare: Spare, events: list[Event]) -> None:
    bench = Bench()
    bench.send(SwitchModelSent("m", EMPTY, (spare,)))
    bench.prompt()
    breaks(bench)
    bench.fires("retry")
    breaks(bench)
    assert bench.got[-1].events == [Retry(2, 0, "no capacity", dropped_text=False), *events]
    bench.fires("retry")
    assert requested_models(bench) == ["m", "m", spare.model]
    assert bench.state.using == (spare.model, spare.options)


def test_other_options_of_the_same_model_are_no_other_model() -> None:
    bench = chained()
    changed = ModelOptionsChanged("m")
    bench.send(SwitchModelSent("m", MILD, SPARES)).expect_only(answer=DONE, events=[changed], model_options=MILD)
    bench.send(SwitchModelSent("m", MILD, SPARES)).expect_only(answer=DONE)
    bench.send(SwitchModelSent("m", EMPTY, SPARES)).expect_only(answer=DONE, events=[changed], model_options=EMPTY)


def test_a_plugin_that_chooses_a_model_chooses_it_alone() -> None:
    def answer(hook: Hook, _state: object, ctx: Context) -> object:
        chooses = isinstance(hook, BeforeRequest) and hook.attempt == 2 and ctx.model == "m"
        return SwitchModel("x") if chooses else Continue()

    bench = chained(plug("Chooses", before_request=answer))
    breaks(bench)
    bench.fires("retry")
    breaks(bench, GONE)
    assert requested_models(bench) == ["m", "x"]
    assert (bench.state.turn, bench.state.model, bench.state.fallbacks) == (None, "x", ())


def test_a_price_is_known_if_it_is_known_of_the_whole_chain() -> None:
    seen: list[bool] = []

    def look(_hook: Hook, _state: object, ctx: Context) -> object:
        seen.append(ctx.price_known)
        return Continue()

    bench = Bench(plug("Looks", before_request=look))
    for priced in ({"m", "n"}, {"o"}):
        bench.send(SwitchModelSent("m", EMPTY, SPARES, frozenset(priced)))
        bench.prompt()
        bench.answers("done")
    assert seen == [False, True]


def test_a_title_is_reported_before_the_response_and_no_tag_is_kept() -> None:
    bench = Bench(options=Options(inline_tags=True))
    bench.prompt()
    response = Response((Text("<title>The lamps</title>Both <status>looking</status>are on."),))
    got = bench.send(StreamEnded(bench.request_id, response))
    assert got.events[0] == TitleGenerated("The lamps")
    assert bench.state.last_text == "Both are on."


def test_nothing_but_tags_is_nothing() -> None:
    bench = Bench(options=Options(inline_tags=True))
    bench.prompt()
    response = Response((Text("<status>looking</status>"),))
    assert bench.send(StreamEnded(bench.request_id, response)).events[0] == Retry(
        1, 0, "the model answered with nothing"
    )
