"""What is seen of random sessions: the same, whether their streams are heard whole, or with pieces missing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from agentrail.values import events as e
from property_tests.volume import profile
from tests.api.drawn_transcripts import Item, drawn_stream, seen_in

pytestmark = pytest.mark.long

SESSIONS = {"ci": 80, "campaign": 10_000}
LENGTH = 150


def streams() -> Iterator[tuple[list[e.Envelope], random.Random]]:
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    for seed in range(begin, begin + SESSIONS[profile()]):
        yield drawn_stream(seed, LENGTH), random.Random(seed)


def test_the_stored_events_alone_tell_the_same_as_the_live_stream() -> None:
    answers = 0
    for stream, _ in streams():
        settled = seen_in(stream).settled()
        assert seen_in([envelope for envelope in stream if envelope.event.durable]).settled() == settled
        answers += sum(item.kind == "answer" for item in settled)
    assert answers > SESSIONS[profile()]


def test_a_gap_anywhere_changes_nothing_of_what_is_settled() -> None:
    gaps = 0
    for stream, draw in streams():
        for _ in range(5):
            start = draw.randrange(len(stream))
            end = draw.randrange(start, min(start + 40, len(stream)))
            heard = [*with_gap(stream, start, end)]
            gaps += len(heard) < len(stream)
            assert seen_in(heard).settled() == seen_in(stream).settled()
    assert gaps > SESSIONS[profile()]


def with_gap(stream: Sequence[e.Envelope], start: int, end: int) -> Iterator[e.Envelope]:
    """Yield *stream* as a session tells it to who reads on from *start*, when no deltas up to *end* are kept."""
    first, last = stream[start], stream[end]
    yield from stream[: start + 1]
    yield first.but(event=e.Gap(first.seq, first.n, last.seq, last.n))
    yield from (envelope for envelope in stream[start + 1 : end + 1] if envelope.event.durable)
    yield from stream[end + 1 :]


def test_who_joins_anywhere_sees_all_of_the_next_turns() -> None:
    items = 0
    for stream, draw in streams():
        start = draw.randrange(len(stream))
        later = [envelope.seq for envelope in stream[start + 1 :] if isinstance(envelope.event, e.AgentStart)]
        if later:
            joined = seen_after(later[0], stream[start:])
            assert joined == seen_after(later[0], stream)
            items += len(joined)
    assert items > SESSIONS[profile()]


def seen_after(seq: int, stream: Sequence[e.Envelope]) -> list[Item]:
    """Return what is seen after event *seq*, without ends of calls that were made before it."""
    return [item for item in seen_in(stream).settled() if item.seq > seq and (item.kind != "call" or item.args)]
