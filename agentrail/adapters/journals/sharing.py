"""Writes a text that stands more than once in a record only once: the later ones refer to the first.

A record says most texts several times: a prompt is its input, an event, and a message of the history. Both ways work on
the JSON, without parsing it, so that what is read is what was written, byte for byte.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

LEAST: Final = 32
"""Bytes of the shortest text that is shared."""

MARK: Final = b"$="
"""How a reference begins, as a text: it goes on with the number of the text among the long ones, counted from 0.

A text that begins so itself gets one more `=`, which is no number.
"""


def shared(body: bytes) -> bytes:
    """Return the JSON *body* with references in place of long texts that stand in it before."""
    known: dict[bytes, bytes] = {}
    pieces: list[bytes] = []
    done = 0
    for start, end in _texts(body):
        text = body[start:end]
        if text in known:
            pieces += (body[done:start], known[text])
            done = end
            continue
        if end - start >= LEAST:
            known[text] = MARK + b"%d" % len(known)
        if text.startswith(MARK):
            pieces += (body[done:start], MARK, b"=")
            done = start + len(MARK)
    return b"".join((*pieces, body[done:])) if pieces else body


def expanded(body: bytes) -> bytes:
    """Return the JSON *body* that `shared` was given; raise `ValueError` if a reference leads nowhere."""
    if b'"' + MARK not in body:
        return body
    known: list[bytes] = []
    pieces: list[bytes] = []
    done = 0
    for start, end in _texts(body):
        text = body[start:end]
        if text.startswith(MARK):
            said = text[len(MARK) :]
            pieces.append(body[done:start])
            done = end
            if said.startswith(b"="):
                text = MARK + said[1:]
            elif said.isdigit() and int(said) < len(known):
                pieces.append(known[int(said)])
                continue
            else:
                problem = f"it refers to text {said!r:.40}, and has {len(known)} before"
                raise ValueError(problem)
            pieces.append(text)
        if len(text) >= LEAST:
            known.append(text)
    return b"".join((*pieces, body[done:]))


def _texts(body: bytes) -> list[tuple[int, int]]:
    """Return where the texts of the JSON *body* that are long, or begin with the mark, start and end, without quotes.

    Escaped quotes are masked, and the rest is split at quotes: every second piece is a text. This takes a tenth of what
    a regular expression does.
    """
    pieces = body.replace(b"\\\\", b"..").replace(b'\\"', b"..").split(b'"')
    ends = [end - 1 for end in accumulate([len(piece) + 1 for piece in pieces])]
    if b'"' + MARK in body:
        return [
            (ends[place] - len(text), ends[place])
            for place, text in enumerate(pieces)
            if place % 2 and (len(text) >= LEAST or text.startswith(MARK))
        ]
    return [
        (ends[place] - len(text), ends[place]) for place, text in enumerate(pieces) if len(text) >= LEAST and place % 2
    ]
