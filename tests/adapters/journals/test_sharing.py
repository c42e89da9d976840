"""A text that a record repeats is stored once, and what is read is what was written, byte for byte."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.journals.packing import PackedRecord, UnpackError, pack, unpack
from agentrail.adapters.journals.text_dedup import LEAST, MARK, expand_texts, share_texts
from tests.kit import prompted
from tests.opcodes import counted_opcodes

ODD = st.sampled_from(
    (
        "",
        "$=",
        "$=0",
        "$==0",
        "$=9" + "x" * LEAST,
        'say "hi" \\ to everybody who is there, and more',
        '","$=0","' + "y" * LEAST,
        "\\" * 40,
        '\\"' * 20,
        '"' * 40,
        "é🙂" * 20,
        "\n\t" * 20,
        "a" * (LEAST - 1),
        "a" * LEAST,
    )
)
VALUES = st.recursive(
    ODD | st.text(string.printable, max_size=50) | st.integers(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ODD, inner, max_size=4),
    max_leaves=30,
)


@pytest.mark.long
@given(VALUES, st.booleans())
def test_whatever_is_shared_is_expanded_to_the_same_bytes(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode()
    json.loads(share_texts(body))
    assert expand_texts(share_texts(body)) == body


def test_a_text_of_some_length_is_written_once() -> None:
    text, short = "a text that is long enough to be shared", "a short one"
    body = json.dumps([text, {"also": text}, [short, short, text]], separators=(",", ":")).encode()
    assert json.loads(share_texts(body)) == [text, {"also": "$=0"}, [short, short, "$=0"]]


def test_the_text_of_a_prompt_is_stored_once() -> None:
    record = prompted("s", 1, "tell me of " * 10)
    twice = record.but(command="tell me of " * 10)
    packed = pack(twice)
    assert packed.body.count(b"tell me of ") == 10
    assert unpack(packed, "s", 1) == twice


def test_what_repeats_nothing_is_not_taken_apart() -> None:
    body = json.dumps([f"{number} is a text that is long enough" for number in range(1000)]).encode()
    short = json.dumps(["short", 'with "quotes"'] * 1000).encode()
    with counted_opcodes() as counted:
        assert share_texts(short) == short
    assert counted[0] < 200
    assert share_texts(body) == body


def test_a_reference_is_expanded_without_a_look_at_the_texts_behind_it() -> None:
    twice = ["is a text that is long enough to be shared"] * 2
    body = json.dumps([*twice, *["short"] * 10_000], separators=(",", ":")).encode()
    written = share_texts(body)
    with counted_opcodes() as counted:
        assert expand_texts(written) == body
    assert counted[0] < 500


@pytest.mark.parametrize("wrong", ["1", "x", "", "-1", "00000000000000000000001"])
def test_a_reference_that_leads_nowhere_is_damage(wrong: str) -> None:
    body = pack(prompted("s", 1, "tell me of " * 10)).body.replace(
        b'"$":"PromptSent"', b'"$":"%b"' % (MARK + wrong.encode())
    )
    with pytest.raises(UnpackError, match="refers to text"):
        unpack(PackedRecord(body, {}), "s", 1)
