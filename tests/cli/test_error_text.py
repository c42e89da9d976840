"""Errors of the library in the words of the command line."""

from __future__ import annotations

import re

import pytest

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.exit_status import tell
from agentrail.cli.output.listed_names import MOST_NAMED, listed_names
from agentrail.cli.talk.rendering import pieces_of
from agentrail.errors import AgentrailError, JournalInUse, KeyMissing, KeyWanted, SessionNotStored, UnknownModel
from agentrail.events import StreamError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            KeyMissing("ACME_KEY"),
            "there is no key for this provider: ACME_KEY is not set; set it, or use another model: `agentrail models`",
        ),
        (
            UnknownModel.among("demmo", ["demo"], {}),
            "there is no model `demmo` (did you mean `demo`?); known here: `demo`; `agentrail models` tells about them",
        ),
        (
            KeyWanted("acme"),
            (
                "the server wants a key, and none was sent: acme; `api_key` of an agent in a file names one, because "
                "the customary key of a provider goes to its own address alone"
            ),
        ),
        (
            JournalInUse("j.db", "process 7"),
            (
                "the journal `j.db` is in use (process 7); end that program, or name another journal: "
                "`--journal FILE`; if it is agentrail, start both with the same `XDG_RUNTIME_DIR`, and they share the "
                "journal"
            ),
        ),
    ],
)
def test_the_advice_is_what_the_command_line_has(error: AgentrailError, text: str) -> None:
    assert in_own_words(str(error)) == text


def test_other_errors_stay_as_they_are() -> None:
    text = str(SessionNotStored("trip"))
    assert in_own_words(text) == text


def test_an_error_of_the_model_is_shown_so_in_a_conversation() -> None:
    event = StreamError("KeyMissing", str(KeyMissing("ACME_KEY")))
    (piece,) = pieces_of(event)
    assert piece.text.endswith("or use another model: `agentrail models`")


def test_a_long_error_says_how_much_of_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"agentrail: {BadInputError('x' * 100_000)}")
    errors = capsys.readouterr().err
    (left_out,) = re.findall(r"(\d+) characters left out", errors)
    assert int(left_out) + errors.count("x") == 100_000


def test_of_many_names_the_first_ones_are_named() -> None:
    names = [f"n{number}" for number in range(1, 1_300)]
    assert listed_names(names[:MOST_NAMED]).endswith("`n9`, `n10`")
    assert listed_names(names).endswith("`n9`, `n10` and 1,289 more")
    assert listed_names(["a\x1b[2J"]) == "`a\N{REPLACEMENT CHARACTER}[2J`"
