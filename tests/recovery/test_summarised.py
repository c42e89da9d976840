"""A process that is killed while the context of its session is compacted leaves a session that is whole."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.recovery.summarised import USED

pytestmark = pytest.mark.long

PLACES: Final = {"COMPACTION": 0, "asked": 1, "words": 1, "COMPACTED": 1}
"""The places, and how many requests for the summary the process had made there."""


def test_a_summary_is_made_again_once_and_nothing_is_lost(tmp_path: Path) -> None:
    """Each kill costs at most one more summary; the session has counted the one whose text it has."""
    command = [sys.executable, "-m", "tests.recovery.summarised", str(tmp_path), *PLACES]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert outcome.stdout.splitlines() == [f"{index} -9 0" for index in PLACES]
    for place_value, request in PLACES.items():
        data = json.loads((tmp_path / place_value / "end").read_text())
        assert data["unfit"] is None, place_value
        assert data["ends"] == 3, "the turn has ended as the others have"
        assert not data["compacting"]
        interrupted, done = data["notes"]
        assert interrupted == "the process ended"
        assert done.endswith("were replaced by a summary")
        assert any(text.startswith("[A summary of") for text in data["texts"])
        assert data["texts"][-1] == "done"
        paid = (tmp_path / place_value / "asked").read_text().splitlines()
        assert paid == [*[place_value] * request, "back"], "what is billed is at most two summaries"
        assert USED.input_tokens <= data["used"] < 2 * USED.input_tokens
