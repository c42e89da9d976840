import pytest

from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode, read, write
from agentrail.core.vocabulary.inputs import SubagentReported
from agentrail.errors import BadData, BadValue
from agentrail.events import AnyEvent, Envelope, Event, SubAgentEvent, UnknownEvent
from tests.codec.sampling import sample
from tests.kit import Arrival, freeze_object

HERE: dict[str, object] = {"session_id": "s1", "seq": 1, "n": 0, "at": 5, "turn": 0, "round": 0}
NEWER = {"$": "MoodChanged", "mood": "good", "level": [1, {"x": None}]}


def enveloped(event: object) -> dict[str, object]:
    return {**HERE, "event": event}


def test_an_event_of_a_class_that_is_not_known_is_kept_as_it_came() -> None:
    envelope = decode(Envelope, enveloped(NEWER))
    assert envelope.event == UnknownEvent("MoodChanged", freeze_object({"mood": "good", "level": [1, {"x": None}]}))
    assert decode(Envelope, from_text(write(envelope))) == envelope


@pytest.mark.parametrize("wanted", [Event, AnyEvent, UnknownEvent], ids=["family", "union", "class"])
def test_an_unknown_event_is_read_wherever_an_event_is(wanted: object) -> None:
    assert decode(wanted, {"$": "MoodChanged"}) == UnknownEvent("MoodChanged", freeze_object({}))


def test_an_unknown_event_of_a_child_is_kept_too() -> None:
    envelope = decode(Envelope, enveloped({"$": "SubAgentEvent", "call_id": "c", "child": "s2", "event": NEWER}))
    assert isinstance(envelope.event, SubAgentEvent)
    assert isinstance(envelope.event.event, UnknownEvent)


@pytest.mark.parametrize(
    "event",
    [
        UnknownEvent("AgentStart", freeze_object({"ref": "p1"})),
        UnknownEvent("UnknownEvent", freeze_object({"kind": "a", "body": {}})),
        UnknownEvent("MoodChanged", freeze_object({"$": "AgentStart"})),
    ],
    ids=str,
)
def test_an_unknown_event_never_becomes_a_known_one(event: UnknownEvent) -> None:
    assert decode(Event, from_text(write(event))) == event


def test_an_event_that_is_none_of_a_known_class_is_refused() -> None:
    with pytest.raises(BadData, match=r"its `event` has the key `more`, which is not known"):
        decode(Envelope, enveloped({"$": "ToolCalls", "count": 1, "more": 2}))
    with pytest.raises(BadData, match=r"its `event` lacks `\$`"):
        decode(Envelope, enveloped({"count": 1}))
    with pytest.raises(BadData, match=r"its `event` is an array where an object is wanted"):
        decode(Envelope, enveloped([]))
    with pytest.raises(BadData, match=r"its `\$` is none of those that are known"):
        decode(UnknownEvent, {"$": "ToolCalls", "count": 1})


def test_an_event_of_no_catalogue_is_not_written() -> None:
    class Private(Event):
        """Somebody's own event."""

    with pytest.raises(BadValue, match=r"its `event.\$` is none of those that are known"):
        write(Envelope("s1", 1, 0, 5, 0, 0, Private()))


def test_a_record_with_an_unknown_event_is_read_and_keeps_it() -> None:
    record = sample(StoredRecord)
    assert isinstance(record, StoredRecord)
    text = write(record).replace(b'"$":"BeforeCompact"', b'"$":"MoodChanged"')
    found = read(StoredRecord, text)
    assert isinstance(found.events[0], UnknownEvent)
    assert read(StoredRecord, write(found)) == found


def test_each_of_several_unknown_events_is_kept() -> None:
    events = [{"$": "MoodChanged", "number": number} for number in range(3)]
    found = decode(SubagentReported, {"child": "s", "events": [*events, {"$": "Heartbeat"}]})
    assert found.events[:3] == tuple(
        UnknownEvent("MoodChanged", freeze_object({"number": number})) for number in range(3)
    )


def test_what_is_no_event_never_becomes_an_unknown_one() -> None:
    with pytest.raises(BadData, match=r"its `input.\$` is none of those that are known"):
        decode(Arrival, {"input": {"$": "MoodChanged"}, "at": 1})
    with pytest.raises(BadData, match=r"its `input.\$` is none of those that are known"):
        decode(Arrival, {"input": {"$": "UnknownEvent", "kind": "x", "body": {}}, "at": 1})
