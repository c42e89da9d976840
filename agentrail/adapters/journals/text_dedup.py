"""Stores a long text that occurs several times in a record only once; later occurrences refer to the first.

A record says most texts several times: a prompt is its input, an event, and a message of the history. Both ways work on
the JSON, without parsing it, so that what is read is what was written, byte for byte.

A reference of six bytes may stand for a text of megabytes, so a file of a stranger could fill the memory. What a record
would be with all its texts is counted before they are joined.
"""

from __future__ import annotations

from typing import Final

LEAST: Final = 32
"""Bytes of the shortest text that is shared."""

MARK: Final = b"$="
"""How a reference begins, as a text: it goes on with the number of the text among the long ones, counted from 0.

A text that begins so itself gets one more `=`, which is no number.
"""

FREE: Final = 256 * 1024
"""Bytes of JSON that each record may have, however often it refers to one text."""

TIMES: Final = 64
"""How many times as long as what is stored a longer record may be. One made of the largest results has some 50."""

_MARKED: Final = b'"' + MARK
"""Stands in each JSON text with a text that begins with the mark: nothing else in JSON begins with a quote and `$`."""

_LAST_OF_MARK: Final = MARK[-1:]
_BACKSLASH: Final = b"\\"
_ESCAPED: Final = ((b"\\\\", b"\0\0"), (b'\\"', b"\0\1"))
"""The escapes that are masked in a body, so that each quote begins or ends a text, and the bytes that mask them."""

_SHAPE: Final = bytes(byte if byte == ord('"') else ord(".") for byte in range(256))
_RUN: Final = b"." * LEAST
"""Occurs in a masked body, translated by `_SHAPE`, if one of its texts is long. This is the cheapest test."""


def check_whole(size: int, stored: int) -> None:
    """Raise `ValueError` if *size* bytes of JSON are too many for the *stored* bytes that they are made of."""
    if size > most_whole(stored):
        problem = (
            f"with all that it refers to it would have {size:,} bytes, and may have {most_whole(stored):,}, "
            f"as {stored:,} are stored; it was not written by agentrail"
        )
        raise ValueError(problem)


def most_whole(stored: int) -> int:
    """Return how many bytes of JSON may be made of *stored* bytes."""
    return max(FREE, TIMES * stored)


def share_texts(body: bytes) -> bytes:
    """Return the JSON *body* with references in place of long texts that occur earlier in it.

    If it could not be read so, because one text occurs too often, it is returned without references.
    """
    # `find`, because `in` is slower: it first tries to convert its operand to a number
    masked = body if body.find(_BACKSLASH) < 0 else _mask(body)
    # searched for first: one byte is found in a fifth of the time
    if body.find(_LAST_OF_MARK) >= 0 and body.find(_MARKED) >= 0:
        pieces = masked.split(b'"')
        indices = [i for i in range(1, len(pieces), 2) if len(pieces[i]) >= LEAST or pieces[i].startswith(MARK)]
    elif masked.translate(_SHAPE).find(_RUN) >= 0:
        pieces = masked.split(b'"')
        indices = [index for index, text in enumerate(pieces) if len(text) >= LEAST and index % 2]
        if len({pieces[index] for index in indices}) == len(indices):
            return body
    else:
        return body
    marks: dict[bytes, bytes] = {}
    for index in indices:
        text = pieces[index]
        if text in marks:
            pieces[index] = marks[text]
            continue
        if len(text) >= LEAST:
            marks[text] = MARK + b"%d" % len(marks)
        if text.startswith(MARK):
            pieces[index] = b"%b=%b" % (MARK, text[len(MARK) :])
    shared = _unmask(b'"'.join(pieces))
    return shared if len(body) <= most_whole(len(shared)) else _unmask(masked.replace(_MARKED, _MARKED + b"="))


def expand_texts(body: bytes) -> bytes:
    """Undo `share_texts`: return the original JSON.

    Raise `ValueError` if a reference leads nowhere, or the JSON would be too long: see `check_whole`.
    """
    if body.find(_MARKED) < 0:
        return body
    first, *others = _mask(body).split(_MARKED)
    pieces, parts, texts = [first], [first], list[bytes]()  # `texts` has the long texts of the parts counted so far
    counted = 0
    for other in others:
        quoted, _, rest = other.partition(b'"')
        if quoted.startswith(b"="):
            text = MARK + quoted[1:]
            parts.append(b'"%b"' % text)
        else:
            number = int(quoted) if quoted.isdigit() else -1
            while len(texts) <= number and counted < len(parts):
                texts += [long_text for long_text in parts[counted].split(b'"')[1::2] if len(long_text) >= LEAST]
                counted += 1
            if not 0 <= number < len(texts):
                problem = f"it refers to text {quoted!r:.40}, and has {len(texts)} before"
                raise ValueError(problem)
            text = texts[number]
        pieces += (text, rest)
        parts.append(rest)
    check_whole(sum(map(len, pieces)), len(body))
    return _unmask(b'"'.join(pieces))


def _mask(body: bytes) -> bytes:
    for escaped, mask in _ESCAPED:
        body = body.replace(escaped, mask)
    return body


def _unmask(body: bytes) -> bytes:
    if b"\0" in body:
        for escaped, mask in _ESCAPED:
            body = body.replace(mask, escaped)
    return body
