"""Which stored fields hold texts of persons, and that a redaction leaves none of them."""

import typing
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import cast

import msgspec
import pytest

from agentrail import State
from agentrail.adapters.journals.packing import pack
from agentrail.adapters.journals.redacting import DROPPED, MARK, PAIRS, STATES, UNNAMED, WHOLE
from agentrail.codec.plugin_states import Stored
from agentrail.codec.values import PluginState
from agentrail.core.vocabulary.changes import Change, ChangedStates, ChangedTools, ChangedTurn
from agentrail.core.vocabulary.state import AttachedTool
from agentrail.core.vocabulary.tool_calls import Batch, Call, CallList, Doubt, Hold, first_call
from agentrail.errors import UsageError
from agentrail.events import (
    ApprovalRequired,
    Envelope,
    Event,
    ToolApprovedAlways,
    ToolCallUnknown,
    ToolExecutionStart,
    ToolUnknown,
)
from agentrail.hooks.ruling import NO_DECISIONS, START, Decisions, Pause, PluginAnswer, Section
from agentrail.journals import Record, Redaction, kept_names, redacted
from agentrail.models import (
    AssistantMessage,
    Data,
    FrozenObject,
    History,
    Image,
    Json,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.plugins import Hook
from agentrail.tools import ToolSpec
from agentrail.values.personal import Privacy, marks_in
from agentrail.values.tools import StandingApproval
from agentrail.values.value import Value
from tests.codec.shapes import fields_of, is_class
from tests.kit import EMPTY, Refused, Ruling, Setup, Verdict, freeze_object, prompted

NOTE = Redaction(5, "somebody")
PRIVATE = "private-to-somebody"
TOOLS = frozenset({"tool", "shell"})
TEXTUAL = (str, object, Json, JsonObject, PluginState, FrozenObject)


def kinds(hint: object) -> Iterator[object]:
    """Yield the types in a type hint."""
    yield hint
    for part in typing.get_args(hint):
        if typing.get_origin(hint) is not typing.Literal:
            yield from kinds(part)
    origin = typing.get_origin(hint)
    if origin is not None:
        yield origin


def below(cls: type[object]) -> Iterator[type[object]]:
    """Yield the subclasses of *cls* that ship."""
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("agentrail.") and not sub.__module__.startswith("agentrail.testing"):
            yield sub
        yield from below(sub)


def stored_classes() -> list[type[object]]:
    """Return all classes whose values can be part of a record."""
    return reached_from(Record, Call, *below(Event), *below(Hook))


def reached_from(*classes: type[object]) -> list[type[object]]:
    """Return *classes* and all that are named in the type hints of their fields, of the fields of those, and so on."""
    found: dict[type[object], None] = {}
    waiting = [*classes]
    while waiting:
        cls = waiting.pop()
        if cls in found:
            continue
        found[cls] = None
        for field in fields_of(cls):
            waiting += [cast("type[object]", kind) for kind in kinds(field.hint) if is_class(kind)]
    return list(found)


def test_each_stored_field_that_can_hold_text_is_personal_or_kept() -> None:
    """A new field is a text of persons, or belongs to that without which a session cannot come back."""
    marked: dict[Privacy, set[tuple[str, str]]] = {privacy: set() for privacy in Privacy}
    unmarked: list[str] = []
    superfluous: list[str] = []
    for cls in stored_classes():
        for field in fields_of(cls):
            place = f"{cls.__name__}.{field.name}"
            marks = set(marks_in(field.hint))
            if not any(kind is each or kind == each for kind in kinds(field.hint) for each in TEXTUAL):
                superfluous += [place] if marks else []
            elif len(marks) != 1:
                unmarked.append(place)
            for mark in marks:
                marked[mark].add((cls.__name__, field.name))
    assert unmarked == [], "annotate it with one of `Personal`, `Kept` and `ToolName`, see `values/personal.py`"
    assert superfluous == []
    assert marked[Privacy.PERSONAL] >= PAIRS | STATES | WHOLE | DROPPED


def test_the_name_of_a_class_with_personal_texts_is_that_of_no_other() -> None:
    """`PAIRS`, `STATES`, `WHOLE` and `DROPPED` have them."""
    names = [cls.__name__ for cls in stored_classes()]
    assert [name for name, _ in PAIRS | STATES | WHOLE | DROPPED if names.count(name) != 1] == []


def test_what_plugins_are_given_is_known_by_its_fields() -> None:
    """A state has it without its class; the code of the plugin, which knows that, may be of another process."""
    given = reached_from(Section, Envelope, UserMessage, AssistantMessage, ToolMessage, *below(Event), *below(Hook))
    unnamed = [cls for cls in given if issubclass(cls, Value) and cls.__struct_config__.tag is None]
    for cls in unnamed:
        row = UNNAMED[cls.__name__].split()
        assert row == list(cls.__struct_fields__), "keep the old fields as a row of their own, for stored states"


def strings(value: object) -> Iterator[str]:
    """Yield all texts in a value."""
    match value:
        case str():
            yield value
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from strings(getattr(value, field))
        case Mapping():
            for key, item in value.items():
                yield from strings(key)
                yield from strings(item)
        case Sequence() | frozenset():
            for item in value:
                yield from strings(item)
        case _:
            pass


ARGS = freeze_object({"path": PRIVATE, "n": 5, "list": [PRIVATE]})
MESSAGES = (
    UserMessage((Text(PRIVATE), Image("image/png", "aGk="), Data(freeze_object({"a": PRIVATE})))),
    AssistantMessage((Thinking(PRIVATE, PRIVATE), Text(PRIVATE)), (ToolCall("c1", "tool", ARGS),)),
    ToolMessage("c1", "tool", (Text(PRIVATE),), details=ARGS),
)


def in_envelope(event: Event) -> Envelope:
    return Envelope("s", 1, 0, 5, 1, 1, event)


CALL = first_call(ToolCall("c1", "tool", ARGS)).but(notes=(PRIVATE,))


def whole() -> Record:
    """Return a record with texts in many places."""
    state = State(
        "s",
        Setup("be brief", user_data=ARGS),
        "demo",
        history=History(MESSAGES),
        plugin_states=(Stored("m:C", freeze_object({"$": "m:C", "said": [PRIVATE, 7]})), PRIVATE),
        sections=(Section("about", PRIVATE),),
        batch=Batch(CallList([CALL])),
        title=PRIVATE,
        last_text=PRIVATE,
    )
    change = Change(
        plugin_states=ChangedStates(1, ((0, freeze_object({"a": PRIVATE})),)), sections=(Section("x", PRIVATE),)
    )
    return prompted(
        "s", 1, PRIVATE, opening=state, change=change, answer=Refused.of(UsageError("bad-arguments", PRIVATE, PRIVATE))
    )


def test_no_text_is_left_and_everything_has_its_place() -> None:
    before = whole()
    after = redacted(before, NOTE, TOOLS)
    assert PRIVATE not in pack(after).body.decode()
    assert not [text for text in strings(after) if PRIVATE in text]
    assert after.redacted == NOTE
    assert after.opening is not None
    assert [type(message) for message in after.opening.history] == [type(message) for message in MESSAGES]
    assert after.opening.history[0].parts == (Text(MARK), Text(MARK), Data(MARK))
    assert after.opening.history[1].calls == (ToolCall("c1", "tool", FrozenObject()),)  # type: ignore[union-attr]
    assert after.opening.sections == (Section("about", MARK),)
    assert after.opening.plugin_states == (Stored("m:C", freeze_object({"$": "m:C", "said": [MARK, 7]})), MARK)
    assert after.opening.setup.system == "be brief"
    assert redacted(after, Redaction(9, "another"), TOOLS) == after


def test_keys_of_mappings_in_the_state_of_a_plugin_are_replaced_and_names_of_fields_stay() -> None:
    todo = {"text": PRIVATE, "status": "done"}  # a class of ours that is stored without its name
    counted = {PRIVATE: 1, f"{PRIVATE}s": 2}
    state = freeze_object({"$": "C", "seen": [{"$": "D", "of": counted}], "todo": todo})
    before = prompted(
        "s",
        1,
        opening=State("s", Setup(), "demo", plugin_states=(Stored("m:C", state), freeze_object({PRIVATE: todo}))),
    )
    after = redacted(before, NOTE, TOOLS)
    assert PRIVATE not in pack(after).body.decode()
    assert after.opening is not None
    marked = {MARK: 1, f"{MARK} 1": 2}
    form = {"text": MARK, "status": MARK}
    assert after.opening.plugin_states == (
        Stored("m:C", freeze_object({"$": "C", "seen": [{"$": "D", "of": marked}], "todo": form})),
        freeze_object({MARK: form}),
    )


def test_the_family_of_a_call_is_replaced_wherever_it_is() -> None:
    """It is made of the arguments of the call, such as the first words of a command."""
    pause = Pause(START, None, 5.0, "may it?", PRIVATE)
    hold = Hold("a1", "may it?", "P", FrozenObject(), START, NO_DECISIONS, 5, None, PRIVATE)
    answers = (
        PluginAnswer("P", "hold_tool", "may it?", PRIVATE),
        PluginAnswer("Q", "switch_model", name="demo"),
        PluginAnswer("R", "continue", name=PRIVATE),
    )
    approval = StandingApproval("shell", PRIVATE, "ann", 5)
    state = State(
        "s",
        Setup("be brief"),
        "demo",
        approved_always=frozenset({("shell", PRIVATE), ("shell", "git")}),
        standing_approvals=(approval,),
    )
    decisions = Decisions(families=(PRIVATE,))
    before = prompted(
        "s",
        1,
        "hello",
        opening=state.but(batch=Batch(CallList([CALL.but(hold=hold)]))),
        change=Change(approved_always=state.approved_always, standing_approvals=(approval,)),
        rulings=(Ruling("before_tool", Verdict.HOLD, pause=pause, answers=answers, decisions=decisions),),
        events=(
            in_envelope(ApprovalRequired("a1", "c1", "shell", FrozenObject(), "may it?", "P", 5, None, PRIVATE)),
            in_envelope(ToolApprovedAlways("shell", PRIVATE)),
            in_envelope(ToolExecutionStart("c1", "shell", FrozenObject(), standing=(approval,))),
        ),
    )
    after = redacted(before, NOTE, TOOLS)
    assert [text for text in strings(before) if PRIVATE in text]
    assert not [text for text in strings(after) if PRIVATE in text]
    assert PRIVATE not in pack(after).body.decode()
    assert after.opening is not None
    assert after.opening.approved_always == after.change.approved_always == frozenset()
    assert after.rulings[0].answers[1].name == "demo"


def test_a_name_that_no_tool_has_had_is_replaced_and_others_stay() -> None:
    made_up = first_call(ToolCall("c2", PRIVATE, ARGS))
    called = (
        ToolCall("c1", "tool"),
        ToolCall("c2", PRIVATE, EMPTY, PRIVATE, "call_tool_"),
        ToolCall("c3", "find_tools"),
    )
    before = prompted(
        "s",
        1,
        "hello",
        opening=State(
            "s",
            Setup(),
            "demo",
            history=History((AssistantMessage((), called), ToolMessage("c2", PRIVATE, ()))),
            batch=Batch(CallList([CALL, made_up])),
            in_doubt_calls=(Doubt("c0", "tool", None),),
        ),
        events=(in_envelope(ToolCallUnknown("c2", PRIVATE)), in_envelope(ToolUnknown("c1", "tool"))),
    )
    after = redacted(before, NOTE, TOOLS)
    assert PRIVATE not in pack(after).body.decode()
    assert [envelope.event for envelope in after.events] == [ToolCallUnknown("c2", MARK), ToolUnknown("c1", "tool")]
    assert after.opening is not None
    assert after.opening.history[0].calls == (  # type: ignore[union-attr]
        ToolCall("c1", "tool"),
        ToolCall("c2", MARK, via="call_tool_"),
        ToolCall("c3", "find_tools"),
    )
    assert after.opening.in_doubt_calls == (Doubt("c0", "tool", None),)


def test_the_names_of_tools_are_those_that_a_session_has_ever_had() -> None:
    def attached(name: str) -> AttachedTool:
        return AttachedTool(ToolSpec(name, "", freeze_object({})), 1)

    opening = State("s", Setup(), "demo", tools=MappingProxyType({"first": attached("first")}))
    change = Change(tools=ChangedTools(("first",), MappingProxyType({"second": attached("second")})))
    records = [prompted("s", 1, "hello", opening=opening), prompted("s", 2, "more", change=change)]
    assert kept_names(records) == {"demo", "first", "second"}
    assert kept_names(records[1:]) == {"second"}


def test_the_names_of_models_and_their_options_are_kept_too() -> None:
    options, others = freeze_object({"effort": "high"}), freeze_object({"effort": "low"})
    turn = ChangedTurn(model="c", options=others)
    records = [
        prompted("s", 1, opening=State("s", Setup(), "a", options)),
        prompted("s", 2, change=Change(model="b", turn=turn)),
    ]
    names = kept_names(records)
    assert names == {"a", "b", "c", '{"effort":"high"}', '{"effort":"low"}'}
    state = Stored(
        "m:C", freeze_object({"$": "C", "model": "b", "was": options, "seen": {"effort": "high"}, "by": PRIVATE})
    )
    after = redacted(prompted("s", 3, opening=State("s", Setup(), "a", plugin_states=(state,))), NOTE, names)
    assert after.opening is not None
    kept = {"$": "C", "model": "b", "was": options, "seen": options, "by": MARK}
    assert after.opening.plugin_states == (Stored("m:C", freeze_object(kept)),)


@pytest.mark.parametrize("random", [0.25, 0.75])
def test_the_random_number_of_the_step_is_dropped(random: float) -> None:
    """The former checksum stays in the chain: with the number, it would tell a guessed text from a wrong one."""
    record = whole()
    other = record.but(arrival=record.arrival.but(random=random))
    assert redacted(other, NOTE, TOOLS) == redacted(record, NOTE, TOOLS)
