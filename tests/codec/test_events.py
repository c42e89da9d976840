import pytest

from agentrail.codec import decode, decode_envelope, encode, encode_envelope, from_text, to_text
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import Setup, State
from agentrail.errors import BadData, BadValue
from agentrail.ports.journal import Record
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
    assert encode_envelope(envelope) == {"$": "Envelope", **enveloped({"$": "ToolCalls", "count": 2})}


def test_an_event_of_a_class_that_is_not_known_is_kept_as_it_came() -> None:
    envelope = decode_envelope(enveloped(NEWER))
    assert envelope.event == UnknownEvent("MoodChanged", freeze_object({"mood": "good", "level": [1, {"x": None}]}))
    assert from_text(to_text(encode(envelope))) == {"$": "Envelope"} | enveloped(NEWER)


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
    with pytest.raises(BadData, match=r"its `event` has keys that `ToolCalls` does not know: more"):
        decode_envelope(enveloped({"$": "ToolCalls", "count": 1, "more": 2}))
    with pytest.raises(BadData, match=r"its `event.\$` is nothing where text is wanted"):
        decode_envelope(enveloped({"count": 1}))
    with pytest.raises(BadData, match=r"its `event` is a `list` where an? "):
        decode_envelope(enveloped([]))
    with pytest.raises(BadData, match="it is another class where an `UnknownEvent` is wanted"):
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

    with pytest.raises(BadValue, match=r"its `event` is a `Private` where"):
        encode(Envelope("s1", 1, 0, 5, 0, 0, Private()))


def test_a_record_with_an_unknown_event_is_read_and_written_alike() -> None:
    record = sample(Record)
    assert isinstance(record, Record)
    text = to_text(encode(record)).replace('"$":"BeforeCompact"', '"$":"MoodChanged"')
    read = decode(Record, from_text(text))
    assert isinstance(read.events[0].event, UnknownEvent)
    assert to_text(encode(read)) == text


FIRST = Envelope("s1", 5, 0, 7, 2, 3, ToolCalls(2), ("p", "c"))
BESIDE = {"session_id": "s2", "n": 1, "at": 8, "turn": 3, "round": 4, "path": ()}


def step_of(*envelopes: object) -> Step:
    return Step(State("s1", Setup(), "demo"), events=envelopes)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def row_of(step: Step) -> list[object]:
    data = encode(step)
    assert isinstance(data, dict)
    row = data["events"]
    assert isinstance(row, list)
    return list(row)


def test_an_envelope_that_goes_on_says_only_what_happened() -> None:
    step = step_of(FIRST, FIRST.but(seq=6), FIRST.but(seq=7, event=AgentStart("p1")))
    _, *others = row_of(step)
    assert others == [{"event": {"$": "ToolCalls", "count": 2}}, {"event": {"$": "AgentStart", "ref": "p1"}}]
    assert decode(Step, encode(step)) == step


@pytest.mark.parametrize(
    "changes", [{"seq": 5}, {"seq": 7}, *({"seq": 6, name: BESIDE[name]} for name in BESIDE)], ids=str
)
def test_an_envelope_that_does_not_go_on_says_everything(changes: dict[str, object]) -> None:
    other = FIRST.but(**changes)
    step = step_of(FIRST, other, other.but(seq=other.seq + 1))
    full = encode(other)
    assert isinstance(full, dict)
    assert row_of(step)[1:] == [{key: full[key] for key in full if key != "$"}, {"event": full["event"]}]
    assert decode(Step, encode(step)) == step


def test_a_row_in_which_every_envelope_says_everything_is_read_too() -> None:
    """The first format has only such rows."""
    step = step_of(FIRST, FIRST.but(seq=6))
    data = encode(step)
    assert isinstance(data, dict)
    first, _ = row_of(step)
    assert isinstance(first, dict)
    assert decode(Step, {**data, "events": [first, {**first, "seq": 6}]}) == step


def test_a_row_tells_where_something_does_not_fit() -> None:
    step = step_of(FIRST, FIRST.but(seq=6))
    data = encode(step)
    assert isinstance(data, dict)
    first, second = row_of(step)
    found = []
    for row in (7, [second], [first, {}], [first, {"event": 3}], [first, {"event": {"$": "ToolCalls", "count": "x"}}]):
        with pytest.raises(BadData) as bad:
            decode(Step, {**data, "events": row})
        found.append(bad.value.args[1])
    for envelopes in ((FIRST, 3), (FIRST, FIRST.but(seq=6, event=ToolCalls("x")))):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with pytest.raises(BadValue) as refused:
            encode(step_of(*envelopes))
        found.append(refused.value.args[1])
    assert found == [
        "its `events`",
        "its `events[0].v`",
        "its `events[1].v`",
        "its `events[1].event`",
        "its `events[1].event.count`",
        "its `events[1]`",
        "its `events[1].event.count`",
    ]
