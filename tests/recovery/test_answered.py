"""A process that is killed between the answer of a model, its check and its record gives an answer that fits, once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.long

POINTS: Final = {
    "RESPONSE": (0, 0),
    "MESSAGE_TAKEN": (0, 0),
    "class": (1, 0),
    "APPEND": (1, 0),
    "COMMIT": (1, 0),
    "COMMITTED": (1, 1),
    "APPENDED": (1, 1),
    "PUBLISH": (1, 1),
}
"""The points, and whether the answer that had come was checked there, and its record written."""

PLACES: Final = [
    *((who, answer, point) for who in ("spec", "caller") for answer in (1, 2) for point in POINTS),
    *(("late", answer, point) for answer in (1, 2) for point in ("RESPONSE", "class", "COMMITTED")),
]


@pytest.mark.campaign
def test_a_typed_answer_is_checked_and_given_once_wherever_the_process_is_killed(tmp_path: Path) -> None:
    places = [f"{who}:{answer}:{point}" for who, answer, point in PLACES]
    command = [sys.executable, "-m", "tests.recovery.answered", str(tmp_path), *places]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert outcome.stdout.splitlines() == [f"{index} -9 0" for index in places]
    for place_value, (who, answer, point) in zip(places, PLACES, strict=True):
        data = json.loads((tmp_path / place_value / "end").read_text())
        checked, written = POINTS[point]
        rejected, ended = (written, 0) if answer == 1 else (1, written)
        assert data["checked"] == answer - 1 + checked, place_value
        assert data["stored"] == {"PromptReceived": 1, "AnswerRejected": rejected, "AgentEnd": ended}, place_value
        paid = len((tmp_path / place_value / "asked").read_text().splitlines())
        if who == "late" and not rejected:  # the class is not known when the answer comes again: the schema decides
            assert data["answers"] == ["unfit", "unfit"], place_value
            assert data["in_the_end"] == {"PromptReceived": 1, "AnswerRejected": 0, "AgentEnd": 1}, place_value
            assert paid == answer + 1, place_value
        else:
            assert data["answers"] == ["4", "4"], place_value
            assert data["in_the_end"] == {"PromptReceived": 1, "AnswerRejected": 1, "AgentEnd": 1}, place_value
            assert paid == answer + 2 - rejected - ended, place_value
        assert data["unfit"] is None, place_value
