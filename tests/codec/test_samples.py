import json
from pathlib import Path

import pytest

from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.values import decode
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.events import EVENTS, AgentEnd, Envelope
from agentrail.models import Text
from tests.codec.plain import encode
from tests.codec.sampling import DEFAULTS, FOLDER, STORED, defaults, event_sample, input_sample, sample
from tests.each_case import each_case
from tests.kit import NOTHING_USED, Arrival, PromptSent

EVENT_FILES = sorted((FOLDER / "events").glob("*.json"))
INPUT_FILES = sorted((FOLDER / "inputs").glob("*.json"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_event_and_every_input_has_a_sample() -> None:
    assert {path.stem for path in EVENT_FILES} == {cls.__name__ for cls in EVENTS}
    assert {path.stem for path in INPUT_FILES} == {cls.__name__ for cls in INPUTS}


def test_the_old_name_of_the_reason_is_understood_with_a_warning() -> None:
    end = AgentEnd("p1", "end", (), NOTHING_USED)
    with pytest.warns(FutureWarning, match="`stop_reason` is called `reason` now") as warned:
        matched = getattr(end, "stop_reason") == "end"  # noqa: B009 - not for type checkers
    assert matched
    assert warned[0].filename == __file__
    with pytest.warns(FutureWarning, match="`stop_reason` is called `reason` now"):
        assert AgentEnd("p1", stop_reason="end", messages=(), usage=NOTHING_USED) == end  # type: ignore[call-arg]


@each_case(EVENT_FILES)
def test_the_sample_of_an_event_loads_and_is_written_alike(path: Path) -> None:
    envelope = decode(Envelope, from_text(read(path)))
    assert type(envelope.event).__name__ == path.stem
    assert envelope == event_sample(type(envelope.event))
    assert from_text(to_text(encode(envelope))) == json.loads(read(path))


@each_case(INPUT_FILES)
def test_the_sample_of_an_input_loads_and_is_written_alike(path: Path) -> None:
    arrival = decode(Arrival, from_text(read(path)))
    assert type(arrival.input).__name__ == path.stem
    assert arrival == input_sample(type(arrival.input))
    assert from_text(to_text(encode(arrival))) == json.loads(read(path))


@pytest.mark.parametrize("cls", STORED, ids=lambda cls: cls.__name__)
def test_the_sample_of_what_journals_write_loads_and_is_written_alike(cls: type[object]) -> None:
    text = read(FOLDER / "stored" / f"{cls.__name__}.json")
    found = decode(cls, from_text(text))
    assert found == sample(cls)
    assert from_text(to_text(encode(found))) == json.loads(text)


def test_what_records_leave_out_still_means_what_it_meant() -> None:
    now = defaults()
    for cls, fields in json.loads(read(DEFAULTS)).items():
        changed = {name: default for name, default in fields.items() if now.get(cls, {}).get(name) != default}
        assert not changed, f"records without these fields of {cls} would read differently now"


def test_every_default_is_in_the_sample() -> None:
    assert defaults() == json.loads(read(DEFAULTS)), "`python -m tests.codec.sampling`, after its file was deleted"


def test_a_prompt_that_was_written_before_prompts_could_be_cleared_is_not() -> None:
    old = '{"input":{"$":"PromptSent","parts":[{"$":"Text","text":"hi"}]},"at":1,"random":0.25}'
    assert decode(Arrival, from_text(old)) == Arrival(PromptSent((Text("hi"),)), 1, 0.25)
    assert to_text(encode(decode(Arrival, from_text(old)))) == old
