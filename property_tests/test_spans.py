"""Spans of random sessions: what is open in the state is an open span, and each span ends once."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from agentrail import State
from agentrail.adapters.otel.conventions import attributes_of, name_of
from agentrail.adapters.otel.span_fold import NOTHING_OPEN, OpenSpans, fold
from agentrail.adapters.otel.spans import Span, SpanRef, TurnSpan
from agentrail.core.vocabulary.inputs import SessionReturned
from agentrail.core.vocabulary.tool_calls import WAITS_FOR_PERSON, CallStatus
from agentrail.events import AgentStart, RequestStart
from agentrail.journals import Record
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from property_tests.volume import profile
from tests.machinery.worlds.checked_world import CheckedWorld

SESSIONS = {"ci": 50, "campaign": 5_000}
LENGTH = 40


def lived(seed: int) -> Iterator[tuple[State, Record]]:
    """Yield the records of a random session, each with the state after it."""
    choose = Choose(random.Random(seed).randrange)
    world = CheckedWorld(draw_scene(choose))
    live = world.state
    world.open()
    steps = 0
    while world.state is not live:
        live = world.state
        steps += 1
        written = world.records[-1]
        yield live, Record(live.session_id, steps, written.arrival, (), written.events, (), written.change)
        if steps % LENGTH:
            world.go(choose)


def check(state: State, spans: OpenSpans) -> None:
    """Check that what is open in *state* has an open span, and nothing else has."""
    has_turn = state.turn is not None and state.turn.ended is None
    assert (spans.turn is not None) == has_turn
    request_id = None if state.request is None or not has_turn else state.request.request_id
    assert (None if spans.request is None else spans.request.request_id) == request_id
    calls = () if state.batch is None else state.batch.calls
    running = {call.call_id for call in calls if call.status in {CallStatus.RUNNING, CallStatus.HELD}}
    assert running <= set(spans.calls)
    unfinished = {call.call_id for call in calls if not call.done and call.status is not CallStatus.RETURNED}
    beside = {detached.call_id for detached in state.lingering_calls} | {run.ask_id for run in state.suspended_runs}
    assert set(spans.calls) <= unfinished | beside
    waiting = {call.call_id for call in calls if call.status in WAITS_FOR_PERSON}
    assert {call_id for call_id, call in spans.calls.items() if call.held_since is not None} == waiting


@pytest.mark.long
def test_spans_of_random_sessions_are_what_their_states_say() -> None:
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    interrupted = 0
    for seed in range(begin, begin + SESSIONS[profile()]):
        spans, ended = NOTHING_OPEN, list[Span]()
        starts, requests = 0, 0
        for state, record in lived(seed):
            spans, new = fold(spans, state.setup, record)
            check(state, spans)
            ended += new
            starts += sum(isinstance(each.event, AgentStart) for each in record.events)
            requests += sum(isinstance(each.event, RequestStart) for each in record.events)
            interrupted += isinstance(record.arrival.input, SessionReturned) and bool(new)
        still_open = [span for span in (spans.turn, spans.request, *spans.calls.values()) if span is not None]
        refs = [span.ref for span in (*ended, *still_open)]
        assert len(refs) == len(set(refs)), seed
        known: set[SpanRef | None] = {None, *refs}
        assert all(span.parent in known and known.issuperset(span.links) for span in ended), seed
        assert all(0 < span.start <= span.end for span in ended), seed
        whole = [span for span in (*ended, *still_open) if not span.is_interrupted]
        assert sum(isinstance(span, TurnSpan) for span in whole) == starts, seed
        assert sum(hasattr(span, "request_id") for span in (*ended, *still_open)) == requests, seed
        for span in ended:
            attributes = attributes_of(span, has_content=True)
            name_of(span).encode()
            assert all(value.encode() for value in attributes.values() if isinstance(value, str) and value)
    assert interrupted > SESSIONS[profile()] // 10
