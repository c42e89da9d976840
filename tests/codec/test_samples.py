import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from msgspec import UNSET

from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.values import decode
from agentrail.codec.versions import RENAMED_IN_6, upcast
from agentrail.core.vocabulary.changes import ChangedSuspended
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.errors import BadData
from agentrail.events import EVENTS, AgentEnd, Envelope, SubAgentEvent
from agentrail.models import Json, JsonObject, Text
from tests.codec.plain import encode
from tests.codec.sampling import DEFAULTS, FOLDER, STORED, defaults, event_sample, input_sample, sample
from tests.each_case import each_case
from tests.kit import NOTHING_USED, Arrival, PromptSent, freeze

EVENT_FILES = sorted((FOLDER / "events").glob("*.json"))
INPUT_FILES = sorted((FOLDER / "inputs").glob("*.json"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_event_and_every_input_has_a_sample() -> None:
    assert {path.stem for path in EVENT_FILES} == {cls.__name__ for cls in EVENTS}
    assert {path.stem for path in INPUT_FILES} == {cls.__name__ for cls in INPUTS}


def test_the_end_of_a_turn_is_read_with_the_old_name_of_its_reason_wherever_it_is() -> None:
    old = cast("JsonObject", from_text(read(FOLDER / "older" / "AgentEnd.json")))
    new = event_sample(AgentEnd)
    end = cast("AgentEnd", new.event).but(reason="the stop_reason")
    assert decode(Envelope, old) == new.but(event=end)
    inner = {
        **cast("JsonObject", encode(SubAgentEvent("c1", "s1.c1", end))),
        "$": "SubAgentEvent",
        "event": old["event"],
    }
    assert decode(Envelope, {**old, "event": inner}) == new.but(event=SubAgentEvent("c1", "s1.c1", end))
    both = {**cast("JsonObject", old["event"]), "reason": "both"}
    with pytest.raises(BadData, match="stop_reason"):
        decode(Envelope, {**old, "event": both})


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


def test_a_record_of_format_4_says_of_all_paused_runs_that_they_are_new() -> None:
    older = FOLDER / "older"
    found = decode(StoredRecord, upcast(from_text(read(older / "StoredRecord-4.json")), 4))
    same = decode(StoredRecord, upcast(from_text(read(older / "StoredRecord-5.json")), 5))
    assert same.change.suspended_runs is not UNSET
    suspended = ChangedSuspended(same.change.suspended_runs.put, begins=True)
    assert found == same.but(change=same.change.but(suspended_runs=suspended))


def in_new_words(name: str, value: Json) -> Json:
    """Return the *value* of a field in a sample as it is written since format 6: texts in it say the field's name."""
    return from_text(to_text(value).replace(f'"the {name}"', f'"the {RENAMED_IN_6.get(name, name)}"'))


ADDED_IN_6 = frozenset({"digest", "dropped", "incarnation"})
"""Fields that format 6 has, and format 5 had not."""


def without_added(value: Json) -> Json:
    """Return the sample *value* of format 6 without the fields that format 5 had not."""
    if isinstance(value, Mapping):
        return freeze({name: without_added(inner) for name, inner in value.items() if name not in ADDED_IN_6})
    return tuple(map(without_added, value)) if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("cls", STORED, ids=lambda cls: cls.__name__)
def test_fields_of_format_5_come_back_by_their_names_or_are_left_out(cls: type[object]) -> None:
    older = from_text(read(FOLDER / "older" / "format-5" / f"{cls.__name__}.json"))
    assert isinstance(older, Mapping)
    states = {
        place: {name: in_new_words(name, value) for name, value in fields.items()}
        for place in ("change", "opening", "state")
        if isinstance(fields := older.get(place), Mapping)
    }
    assert all({"altered", *RENAMED_IN_6} - fields.keys() <= {"opening"} for fields in states.values())
    now = without_added(from_text(read(FOLDER / "stored" / f"{cls.__name__}.json")))
    assert decode(cls, upcast({**older, **states}, 5)) == decode(cls, now)


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
