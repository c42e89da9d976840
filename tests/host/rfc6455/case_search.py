"""Reads a case of RFC 6455, in pieces, as the host checks it: `check_case`."""

from __future__ import annotations

from random import Random
from typing import Final

from agentrail.host.http11.websocket_protocol import MessageReader
from tests.host.model.expecting import expect
from tests.host.rfc6455.frame_cases import CASES, sizes

MOST: Final = 120_000
EVERY: Final = (*CASES, *sizes(MOST))


def check_case(seed: int) -> None:
    """Read the case with the number *seed*; raise `ModelError` if it is judged wrongly."""
    case, draw = EVERY[seed % len(EVERY)], Random(seed)
    sent = b"".join([*case.first, *case.last])
    reader, index = MessageReader(MOST), 0
    while index < len(sent):
        piece = sent[index : index + draw.choice((1, 10, 100_000))]
        reader.read(piece)
        index += len(piece)
    expected = case.code if case.breaks else None
    expect(case.section, None if reader.broken is None else reader.broken.code, expected)
