"""What `agentrail run` makes of its argument and of standard input, whatever bytes that has."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk import prompt_input
from agentrail.cli.talk.prompt_input import decoded, prompt_of, with_context

HOSTILE = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.lists(st.sampled_from(["```", "````stdin", "`", "\n", "\r\n", "\0", "\x1b[2J", "\u202e", "\ufeff", "tea"])).map(
        lambda pieces: "".join(pieces).encode()
    ),
)


@pytest.mark.parametrize(
    ("argument", "piped", "prompt"),
    [
        ("hello", None, "hello"),
        ("hello", b"", "hello"),
        ("hello", b" \n", "hello"),
        (None, b"hello\n", "hello\n"),
        ("-", b"hello", "hello"),
        (None, b"\xef\xbb\xbfhello", "hello"),
        ("sum up", b"a\nb\n", "sum up\n\nStandard input:\n\n```stdin\na\nb\n```\n"),
        ("sum up", b"no end of line", "sum up\n\nStandard input:\n\n```stdin\nno end of line\n```\n"),
        ("sum up", b"```\nx\n````\n", "sum up\n\nStandard input:\n\n`````stdin\n```\nx\n````\n`````\n"),
    ],
)
def test_argument_and_standard_input_make_the_prompt(argument: str | None, piped: bytes | None, prompt: str) -> None:
    assert prompt_of(argument, piped) == prompt


@pytest.mark.parametrize(
    ("argument", "piped", "problem"),
    [
        (None, None, "there is no prompt; give it as an argument, as in `agentrail run "),
        ("-", None, "there is no prompt; "),
        (None, b"", "standard input is empty, and so is the prompt; "),
        ("-", b"\xef\xbb\xbf\n", "standard input is empty, and so is the prompt; "),
        (" ", b"text", "the prompt is empty; "),
        (None, b"tea\nm\xe4h", "standard input is no UTF-8: byte 0xe4 at position 5, in line 2; convert it first, "),
        ("hello", b"\xef\xbb\xbf\xff", "standard input is no UTF-8: byte 0xff at position 3, in line 1; "),
        ("m\udce4h", None, "the prompt is no UTF-8 from character 2 on; convert it first, "),
    ],
)
def test_what_is_no_prompt_is_told(argument: str | None, piped: bytes | None, problem: str) -> None:
    with pytest.raises(BadInputError, match=f"^{re.escape(problem)}"):
        prompt_of(argument, piped)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_input, "MOST_BYTES", 2 * 1024 * 1024)
    assert len(decoded(b"a" * (2 * 1024 * 1024))) == 2 * 1024 * 1024
    with pytest.raises(BadInputError, match=r"^standard input has more than 2 MiB; give less, or the path of a file"):
        decoded(b"a" * (2 * 1024 * 1024 + 1))


def text_or_problem(piped: bytes) -> str | BadInputError:
    try:
        return decoded(piped)
    except BadInputError as error:
        return error


@pytest.mark.long
@given(piped=HOSTILE)
@example(piped=b"\xed\xa0\x80")
@example(piped=b"`" * 50 + b"\n")
def test_any_bytes_are_either_read_as_they_are_or_refused_in_one_sentence(piped: bytes) -> None:
    text = text_or_problem(piped)
    if isinstance(text, str):
        assert text.encode() == piped.removeprefix(b"\xef\xbb\xbf")
        return
    assert "\n" not in str(text)
    position = int(str(text).partition("position ")[2].partition(",")[0])
    assert f"byte 0x{piped[position]:02x} at" in str(text)
    piped[:position].decode()
    with pytest.raises(UnicodeDecodeError):
        piped[position:].decode()


@pytest.mark.long
@given(context=HOSTILE.map(lambda piped: piped.decode("utf-8", "ignore")))
def test_no_context_can_leave_its_fence(context: str) -> None:
    text = with_context("Sum it up.", context)
    prompt, fence, rest = re.split(r"^(`+)stdin\n", text, maxsplit=1, flags=re.MULTILINE)
    assert prompt == "Sum it up.\n\nStandard input:\n\n"
    inside, end = rest[: -len(fence) - 1], rest[-len(fence) - 1 :]
    assert end == f"{fence}\n"
    assert fence not in inside
    assert inside in {context, f"{context}\n"}
    assert inside.endswith("\n")
