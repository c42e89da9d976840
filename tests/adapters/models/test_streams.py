import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Final, cast

import pytest

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.redaction import Redactor
from agentrail.adapters.models.remote_model import Hearing
from agentrail.errors import ModelError, StreamEndedEarly
from agentrail.models import PROVIDERS, Chunk, Response, Text, TextChunk, Thinking, ThinkingChunk, UsageChunk
from tests.adapters.models.expected import RESPONSES, SPARE
from tests.adapters.models.server import STREAMS, recorded
from tests.each_case import each_case
from tests.kit import NOTHING_USED
from tests.profiles import CAMPAIGN

CR_LF, CR = b"\r\n", b"\r"


def heard(name: str, *pieces: bytes) -> tuple[Response, list[Chunk]]:
    chunks: list[Chunk] = []
    provider = name.partition("_")[0]
    hearing = Hearing(format_of(PROVIDERS[provider]), Redactor(()), chunks.append)
    for piece in pieces:
        hearing.feed(piece)
    return hearing.response(), chunks


def test_each_stream_has_an_answer_and_each_answer_a_stream() -> None:
    assert sorted(path.stem for path in STREAMS.iterdir()) == sorted(RESPONSES)


@each_case(RESPONSES)
def test_a_stream_is_read_whole_and_its_chunks_add_up_to_the_answer(name: str) -> None:
    response, chunks = heard(name, recorded(f"{name}.sse"))
    said = "".join(part.text for part in response.parts if isinstance(part, Text))
    thought = "".join(part.text for part in response.parts if isinstance(part, Thinking))
    counted = [NOTHING_USED, *(chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk))]
    assert response == RESPONSES[name]
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == said
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk)) == thought
    assert counted[-1] == response.usage
    assert counted == sorted(counted, key=lambda usage: usage.total_tokens)


def places(stream: bytes) -> list[int]:
    """Return where a stream is cut: at each byte in the campaign, beside line ends and within characters in CI."""
    every = 1 if CAMPAIGN else 11
    return [
        at
        for at in range(len(stream) + 1)
        if at % every == 0 or {*stream[max(at - 1, 0) : at + 1]} & {*b"\r\n"} or stream[at : at + 1] >= b"\x80"
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", RESPONSES)
def test_a_stream_may_be_cut_at_any_byte(name: str) -> None:
    whole = recorded(f"{name}.sse")
    for end in (b"\n", CR_LF, CR):
        stream = whole.replace(b"\n", end)
        for at in places(stream):
            assert heard(name, stream[:at], stream[at:])[0] == RESPONSES[name], at


@each_case(RESPONSES)
def test_a_stream_may_come_byte_by_byte_with_comments_pings_and_a_mark_at_its_beginning(name: str) -> None:
    events = recorded(f"{name}.sse").split(b"\n\n")
    stream = b"\xef\xbb\xbf" + b"\n\n: still at work\n\nretry: 3\n\n".join(events)
    assert heard(name, *(stream[at : at + 1] for at in range(len(stream))))[0] == RESPONSES[name]


@each_case(RESPONSES)
def test_data_may_stand_on_several_lines(name: str) -> None:
    stream = recorded(f"{name}.sse").replace(b',"', b',\ndata: "')
    assert heard(name, stream)[0] == RESPONSES[name]


@each_case(RESPONSES)
def test_a_stream_that_ends_before_its_last_event_is_no_answer(name: str) -> None:
    stream = recorded(f"{name}.sse")
    events = stream.strip().split(b"\n\n")
    for kept in range(len(events) - SPARE.get(name, 0)):
        cut = b"\n\n".join(events[:kept]) + b"\n\n"
        with pytest.raises(StreamEndedEarly):
            heard(name, cut)


@each_case(RESPONSES)
def test_the_last_event_needs_no_empty_line_behind_it(name: str) -> None:
    assert heard(name, recorded(f"{name}.sse").rstrip(b"\n"))[0] == RESPONSES[name]


ODD: Final[tuple[object, ...]] = ({}, [], None, "x", 1.5, -1, True)
"""Values that a server of another maker may write where the format wants something else."""


def replaced(value: object, odd: object) -> Iterator[object]:
    """Yield *value*, which is JSON, with each of its items replaced in turn by *odd*."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in items:
        for other in (odd, *replaced(item, odd)):
            copy = cast("dict[object, object]", value.copy())  # type: ignore[attr-defined]
            copy[key] = other
            yield copy


@pytest.mark.long
@pytest.mark.parametrize("name", RESPONSES)
def test_an_odd_value_anywhere_is_read_or_is_an_error_of_the_model(name: str) -> None:
    events = recorded(f"{name}.sse").strip().split(b"\n\n")
    number = count()
    for index, event in enumerate(events):
        head, mark, data = event.rpartition(b"data: ")
        if not data.startswith(b"{"):
            continue
        for odd in (ODD[0], ODD[next(number) % len(ODD)]):
            for value in replaced(json.loads(data), odd):
                changed = head + mark + json.dumps(value).encode()
                with suppress(ModelError):
                    heard(name, b"\n\n".join((*events[:index], changed, *events[index + 1 :], b"")))
