"""Which texts are kept apart from their record."""

import pytest

from agentrail.adapters.journals.packing import BLOB_FROM, LONG, pack, unpack
from agentrail.journals import Record
from agentrail.models import Text
from tests.kit import Arrival, PromptSent


def record(*texts: str) -> Record:
    return Record("s", 1, Arrival(PromptSent(tuple(map(Text, texts))), 0))


@pytest.mark.parametrize("letter", ["a", '"', "\\", "\n", "é"])
def test_a_long_text_of_whatever_letters_is_kept_apart(letter: str) -> None:
    short, long = letter * (LONG // 2), letter * LONG
    given = record(long, *[short] * 40)
    packed = pack(given)
    assert list(packed.blobs.values()) == [long.encode()]
    assert unpack(packed, "s", 1) == given


@pytest.mark.parametrize("letter", ["a", '"', "\\", "\n", "é"])
def test_what_is_made_of_short_texts_stays_whole(letter: str) -> None:
    given = record(*[f"{number}{letter * (LONG - 2)}" for number in range(10)], "$blob")
    packed = pack(given)
    assert not packed.blobs
    assert len(packed.body) > BLOB_FROM
    assert unpack(packed, "s", 1) == given


@pytest.mark.parametrize("odd", ['{"$blob":"', '{"$blob":"x"}', '"$blob', "\\", '\\"{"$blob":"'])
def test_a_text_that_looks_as_if_it_stood_for_a_long_one_is_read_as_it_was(odd: str) -> None:
    long = odd + "a" * BLOB_FROM
    given = record(long, odd, long, f"{odd} in a text", odd)
    packed = pack(given)
    assert list(packed.blobs.values()) == [long.encode()]
    assert unpack(packed, "s", 1) == given
