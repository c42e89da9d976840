import pytest

from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.text import from_text, to_text
from agentrail.codec.values import decode, decode_envelope, encode, encode_envelope, read, write
from agentrail.core.vocabulary.inputs import Arrival, SubagentReported
from agentrail.errors import BadData, BadValue
from agentrail.values.events import AgentStart, AnyEvent, Envelope, SubAgentEvent, ToolCalls, UnknownEvent
from agentrail.values.events.envelope import Event
from agentrail.values.json import freeze_object
from tests.codec.sampling import sample

HERE: dict[str, object] = {"session_id": "s1", "seq": 1, "n": 0, "at": 5, "turn": 0, "round": 0}
NEWER = {"$": "MoodChanged", "mood": "good", "level": [1, {"x": None}]}


def enveloped(event: object, **more: object) -> dict[str, object]:
    return {"v": 1, **HERE, "event": event} | more


def test_an_envelope_names_its_version() -> None:
    envelope = Envelope("s1", 1, 0, 5, 0, 0, ToolCalls(2))
    assert encode_envelope(envelope) == enveloped({"$": "ToolCalls", "count": 2})


def test_an_event_of_a_class_that_is_not_known_is_kept_as_it_came() -> None:
    envelope = decode_envelope(enveloped(NEWER))
    assert envelope.event == UnknownEvent("MoodChanged", freeze_object({"mood": "good", "level": [1, {"x": None}]}))
    assert decode_envelope(encode_envelope(envelope)) == envelope


@pytest.mark.parametrize("wanted", [Event, AnyEvent, UnknownEvent], ids=["family", "union", "class"])
def test_an_unknown_event_is_read_wherever_an_event_is(wanted: object) -> None:
    assert decode(wanted, {"$": "MoodChanged"}) == UnknownEvent("MoodChanged", freeze_object({}))


def test_an_unknown_event_of_a_child_is_kept_too() -> None:
    envelope = decode_envelope(enveloped({"$": "SubAgentEvent", "call_id": "c", "child": "s2", "event": NEWER}))
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
    assert decode(Event, from_text(to_text(encode(event)))) == event


def test_an_event_that_is_none_of_a_known_class_is_refused() -> None:
    with pytest.raises(BadData, match=r"its `event` has the key `more`, which is not known"):
        decode_envelope(enveloped({"$": "ToolCalls", "count": 1, "more": 2}))
    with pytest.raises(BadData, match=r"its `event` lacks `\$`"):
        decode_envelope(enveloped({"count": 1}))
    with pytest.raises(BadData, match=r"its `event` is an array where an object is wanted"):
        decode_envelope(enveloped([]))
    with pytest.raises(BadData, match=r"its `\$` is none of those that are known"):
        decode(UnknownEvent, {"$": "ToolCalls", "count": 1})


@pytest.mark.parametrize("version", [None, 0, -1, "1", 1.0, True])
def test_an_envelope_without_a_version_is_refused(version: object) -> None:
    data = enveloped({"$": "ToolCalls", "count": 1}, v=version)
    with pytest.raises(BadData, match="its `v` is no version of an envelope"):
        decode_envelope({key: item for key, item in data.items() if item is not None})


def test_of_a_newer_envelope_what_is_known_is_read() -> None:
    newer = enveloped({"$": "AgentStart", "ref": "p1"}, v=2, region="north")
    assert decode_envelope(newer) == Envelope("s1", 1, 0, 5, 0, 0, AgentStart("p1"))


def test_in_a_newer_envelope_an_event_that_does_not_fit_counts_as_unknown() -> None:
    newer = enveloped({"$": "AgentStart", "ref": "p1", "mood": "good"}, v=2)
    assert decode_envelope(newer).event == UnknownEvent("AgentStart", freeze_object({"ref": "p1", "mood": "good"}))


@pytest.mark.parametrize("event", [{"ref": "p1"}, {"$": 5}, "AgentStart", None], ids=str)
def test_what_is_no_event_is_none_in_a_newer_envelope_either(event: object) -> None:
    with pytest.raises(BadData, match="its `event"):
        decode_envelope(enveloped(event, v=2))


def test_an_event_of_no_catalogue_is_not_written() -> None:
    class Private(Event):
        """Somebody's own event."""

    with pytest.raises(BadValue, match=r"its `event.\$` is none of those that are known"):
        encode(Envelope("s1", 1, 0, 5, 0, 0, Private()))


def test_a_record_with_an_unknown_event_is_read_and_keeps_it() -> None:
    record = sample(StoredRecord)
    assert isinstance(record, StoredRecord)
    text = write(record).replace(b'"$":"BeforeCompact"', b'"$":"MoodChanged"')
    found = read(StoredRecord, text)
    assert isinstance(found.events[0].event, UnknownEvent)
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
