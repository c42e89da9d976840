"""Typed answers: `ask(returns=…)` and `SessionSpec(returns=…)`, from the caller to a scripted model and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, TypedDict, assert_type

import attrs
import msgspec
import pytest
import trio

from agentrail import Accepted, Reply, SessionHandle, SessionSpec, open_supervisor
from agentrail.core.answers import DESCRIPTION, HINT, LAST_HINT
from agentrail.core.machine.responses import CUT
from agentrail.errors import AnswerUnfit, BadReturns, BadSpec, CommandConflict, NoAnswer
from agentrail.events import AgentEnd, AnswerRejected, ToolExecutionStart
from agentrail.journals import SqliteJournal
from agentrail.models import AssistantMessage, Json, JsonObject, StopReason, Text
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Range
from tests.codec.test_strictness import Endless
from tests.kit import freeze
from tests.runtime.journals import AwakeJournal, TestJournal
from tests.runtime.tools import quick
from tests.runtime.world import World, settle, until


@attrs.frozen
class Invoice:
    """An invoice."""

    number: int
    total: Annotated[float, Range(ge=0)]
    lines: list[str] = attrs.field(factory=list)


@dataclass
class Room:
    name: str
    floor: int = 0


@attrs.frozen
class Kitchen:
    room: str


class Place(TypedDict):
    city: str


class Bed(msgspec.Struct, tag=True):
    long: int


class Desk(msgspec.Struct, tag=True):
    wide: int


class Colour(Enum):
    RED = "red"


SCHEMA: Mapping[str, Json] = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
GOOD = '{"room": "kitchen"}'
BY_TOOL = say(calls=[call("answer", {"room": "kitchen"})])


async def test_an_answer_is_an_object_of_the_class(world: World) -> None:
    session = await world.spawn(
        ['{"number": 7, "total": 3, "lines": ["tea"]}', '{"name": "hall"}', '{"city": "Bonn"}', GOOD]
    )
    assert await session.ask("bill me", returns=Invoice) == Invoice(7, 3.0, ["tea"])
    assert await session.ask("where?", returns=Room) == Room("hall")
    assert await session.ask("which city?", returns=Place) == {"city": "Bonn"}
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}


@pytest.mark.parametrize(
    ("returns", "written", "answer"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (int, "7", 7),
        (float, "7", 7.0),
        (str | int, '"seven"', "seven"),
        (Bed | Desk, '{"type": "Desk", "wide": 2}', Desk(2)),
        (list[Room], '[{"name": "hall"}]', [Room("hall")]),
        (Room | None, "null", None),
        (Literal["yes", "no"], '"no"', "no"),
        (Colour, '"red"', Colour.RED),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (Annotated[int, Range(ge=1)], "1", 1),
        (JsonObject, '{"a": [1]}', {"a": [1]}),
    ],
    ids=str,
)
async def test_a_type_that_is_no_object_is_wrapped_in_one(
    world: World, returns: type[object], written: str, answer: object
) -> None:
    model = ScriptedModel([f'{{"value": {written}}}'])
    session = await world.spawn(model)
    assert await session.ask("go", returns=returns) == answer
    schema = model.requests[0].tools[-1].parameters
    assert (schema["type"], schema["required"]) == ("object", ("value",))


async def test_a_wrapped_answer_that_does_not_fit_is_asked_for_again(world: World) -> None:
    session = await world.spawn(['{"value": ["a"]}', '{"value": [0]}', '{"value": [1]}'])
    assert await session.ask("go", returns=list[Annotated[int, Range(ge=1)]]) == [1]
    assert len(world.heard(session).of(AnswerRejected)) == 2


async def test_a_spec_may_say_a_type(world: World) -> None:
    session = await world.spawn(['{"value": [1]}'], returns=list[int])
    assert (await session.ask("go")).answer == {"value": (1,)}


async def test_a_model_without_a_form_gets_a_tool_that_no_session_sees(world: World) -> None:
    model = ScriptedModel([BY_TOOL, "fine"])
    session = await world.spawn(model, tools=[quick("look")])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    assert (await session.ask("thanks")).text == "fine"
    first, second = model.requests
    assert [tool.name for tool in first.tools] == ["look", "answer"]
    assert (first.tools[-1].description, first.tools[-1].parameters) == (DESCRIPTION, freeze(SCHEMA))
    assert first.sections == (("answer", HINT.format(name="answer")),)
    assert ([tool.name for tool in second.tools], second.sections) == (["look"], ())
    assert not world.heard(session).of(ToolExecutionStart)
    message = session.messages()[1]
    assert isinstance(message, AssistantMessage)
    assert (message.parts, message.calls, message.stop) == ((Text(GOOD.replace(" ", "")),), (), StopReason.END)


async def test_the_tool_has_another_name_beside_one_of_the_session(world: World) -> None:
    model = ScriptedModel([say(calls=[call("answer", {})]), say(calls=[call("answer_", {"room": "hall"})])])
    session = await world.spawn(model, tools=[quick("answer")])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "hall"}
    assert len(world.heard(session).of(ToolExecutionStart)) == 1


async def test_an_answer_beside_other_calls_is_given_again(world: World) -> None:
    both = say(calls=[call("answer", {"room": "a guess"}), call("look", {})])
    session = await world.spawn([both, BY_TOOL], tools=[quick("look")])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    assert len(world.heard(session).of(ToolExecutionStart)) == 1


async def test_in_the_last_round_the_tools_stay_and_the_answer_is_demanded(world: World) -> None:
    model = ScriptedModel([say(calls=[call("look", {})]), BY_TOOL])
    session = await world.spawn(model, tools=[quick("look")], max_rounds=2)
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    first, last = model.requests
    assert [tool.name for tool in last.tools] == [tool.name for tool in first.tools] == ["look", "answer"]
    assert (first.must_call, last.must_call, last.may_call) == ("", "answer", True)
    assert last.sections == (("answer", LAST_HINT.format(name="answer")),)


async def test_the_only_tool_of_a_session_needs_no_demand(world: World) -> None:
    model = ScriptedModel([BY_TOOL])
    session = await world.spawn(model, max_rounds=1)
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    assert (model.requests[0].must_call, model.requests[0].may_call) == ("", True)


async def test_arguments_that_are_no_json_go_back(world: World) -> None:
    session = await world.spawn([say(calls=[call("answer", {"": '{"room": "ki'})]), BY_TOOL])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    assert "it is no JSON" in world.heard(session).only(AnswerRejected).reason


async def test_an_empty_key_beside_others_is_a_part_of_the_answer(world: World) -> None:
    session = await world.spawn([say(calls=[call("answer", {"room": "kitchen", "": "{}"})])])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen", "": "{}"}


async def test_a_call_of_the_tool_that_was_cut_off_is_no_answer(world: World) -> None:
    cut = say(calls=[call("answer", {"room": "kit"})], stop=StopReason.LENGTH)
    session = await world.spawn([cut, BY_TOOL])
    assert await session.ask("which room?", returns=SCHEMA) == {"room": "kitchen"}
    assert world.heard(session).only(AnswerRejected).reason == CUT


async def test_an_answer_that_never_fits_is_a_typed_error(world: World) -> None:
    session = await world.spawn(["no"] * 3)
    with pytest.raises(AnswerUnfit, match="does not fit `returns`: it is no JSON"):
        await session.ask("which room?", returns=SCHEMA)
    await settle()
    assert [event.attempt for event in world.heard(session).of(AnswerRejected)] == [1, 2, 3]
    assert session.inspect().turn is None


async def test_bounds_are_checked_by_the_schema(world: World) -> None:
    session = await world.spawn(['{"number": 7, "total": -1}', '{"number": 7, "total": 1}'])
    assert await session.ask("bill me", returns=Invoice) == Invoice(7, 1.0)


@pytest.mark.parametrize(
    ("returns", "problem"),
    [
        ({"type": "array"}, 'it must say `"type": "object"`; put what it is now into a property, or give a type'),
        ({"type": "object", "properties": 5}, "its schema is invalid"),
        ({"type": "object", "x": object()}, "its schema is not JSON"),
        (set[int], r"it is annotated `set\[int\]`, of which no schema can be made; use `list\[...\]`"),
        (Room | Place, "JSON does not say which of them a value is; give each class a tag, by `msgspec.Struct`"),
        (object, "`object` has no fields"),
        ([int], "it is a `list`; give a JSON Schema"),
        ("Invoice", "it is a `str`; give a JSON Schema"),
        (Endless(), "its schema is not JSON: "),
    ],
    ids=[
        *("a list", "an invalid schema", "no JSON", "a set", "two classes", "object", "a list of types", "a text"),
        "no end",
    ],
)
async def test_what_is_no_form_is_refused_at_once(world: World, returns: object, problem: str) -> None:
    session = await world.spawn([])
    with pytest.raises(BadReturns, match=problem):
        await session.ask("which room?", returns=returns)  # type: ignore[call-overload]
    with pytest.raises(BadReturns, match=problem):
        await session.prompt("which room?", returns=returns)  # type: ignore[arg-type]
    with pytest.raises(BadSpec, match="`returns` will not do"):
        await world.spawn([], returns=returns)
    assert not session.messages()


async def test_a_class_with_a_field_that_no_schema_has_is_refused(world: World) -> None:
    new_value = attrs.make_class("Made", {"found": attrs.field(type=bytes)})
    session = await world.spawn([])
    with pytest.raises(BadReturns, match="of `Made` no schema can be made: it, field `found` of `Made`"):
        await session.ask("go", returns=new_value)


@pytest.mark.parametrize("returns", [SCHEMA, Place], ids=["a schema", "a class"])
async def test_a_spec_has_a_form_for_all_turns(world: World, returns: object) -> None:
    good = GOOD if returns is SCHEMA else '{"city": "Bonn"}'
    session = await world.spawn(["no", good, good, '{"name": "hall"}'], returns=returns)
    for _ in range(2):
        reply = await session.ask("where?")
        assert (reply.fits, reply.answer) == (
            True,
            freeze({"room": "kitchen"} if returns is SCHEMA else {"city": "Bonn"}),
        )
    assert await session.ask("which?", returns=Room) == Room("hall")


async def test_a_reply_without_a_form_has_no_answer(world: World) -> None:
    session = await world.spawn([GOOD])
    assert (await session.ask("where?")).answer is None


async def test_a_turn_that_ends_without_an_answer_is_a_typed_error(world: World) -> None:
    session = await world.spawn([say(calls=[call("look", {})])], tools=[quick("look")], max_rounds=1)
    with pytest.raises(NoAnswer, match="max_rounds"):
        await session.ask("where?", returns=SCHEMA)


async def test_who_asks_again_with_the_same_command_waits_on_after_a_hold(world: World) -> None:
    plugins = [HumanApproval(tools=["look"], timeout=None)]
    session = await world.spawn([say(calls=[call("look", {})]), BY_TOOL], tools=[quick("look")], plugins=plugins)
    with pytest.raises(NoAnswer, match="held"):
        await session.ask("where?", returns=SCHEMA, command="one")
    (held,) = session.status().held
    await session.approve(held.id)
    assert await session.ask("where?", returns=SCHEMA, command="one") == {"room": "kitchen"}
    assert await session.ask("where?", returns=SCHEMA, command="one") == {"room": "kitchen"}
    with pytest.raises(CommandConflict):
        await session.ask("where?", returns=Room, command="one")


async def test_a_caller_who_does_not_wait_gets_the_answer_later(world: World) -> None:
    session = await world.spawn(["no", BY_TOOL, "fine"])
    first = await session.prompt("where?", returns=SCHEMA, command="one")
    second = await session.prompt("thanks")
    await until(lambda: world.heard(session).of(AgentEnd)[1:])
    assert [(end.ref, end.fits) for end in world.heard(session).of(AgentEnd)] == [
        (first.ref, True),
        (second.ref, False),
    ]
    assert await session.ask("where?", returns=SCHEMA, command="one") == {"room": "kitchen"}
    for returns in (None, Room):
        with pytest.raises(CommandConflict):
            await session.prompt("where?", returns=returns, command="one")


@pytest.mark.long
async def test_the_answer_to_a_prompt_is_in_the_file_for_a_later_process(tmp_path: Path) -> None:
    spec = SessionSpec(model=ScriptedModel(["no", GOOD], name="m"))
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "agentrail.db"))) as supervisor:
        session = await supervisor.spawn(spec, "s")
        async with session.subscribe(types=[AgentEnd]) as ends:
            await session.prompt("where?", returns=Kitchen, command="one")
            assert (await anext(ends)).event.fits  # type: ignore[attr-defined]
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "agentrail.db"))) as supervisor:
        session = await supervisor.resume("s", spec.but(model=ScriptedModel([], name="m")))
        assert await session.ask("where?", returns=Kitchen, command="one") == Kitchen("kitchen")


@pytest.mark.parametrize("last", ["no, again", GOOD], ids=["never fits", "fits"])
async def test_the_attempts_go_on_in_another_process(last: str) -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["no", say("late", delay=1000.0)], name="m"), answer_max_retries=1)
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec, "s")

        async def ask() -> None:
            await session.ask("where?", returns=SCHEMA, command="one")

        nursery.start_soon(ask)
        await until(lambda: session.inspect().turn is not None and session.inspect().returns and session.messages()[2:])
        nursery.cancel_scope.cancel()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec.but(model=ScriptedModel([last], name="m")))
        if last == GOOD:
            assert await session.ask("where?", returns=SCHEMA, command="one") == {"room": "kitchen"}
            return
        with pytest.raises(AnswerUnfit):
            await session.ask("where?", returns=SCHEMA, command="one")


async def the_types_that_checkers_see(session: SessionHandle) -> None:
    """The body is checked and not run."""
    assert_type(await session.ask("bill me"), Reply)
    assert_type(await session.ask("bill me", returns=None), Reply)
    assert_type(await session.ask("bill me", returns=Invoice), Invoice)
    assert_type(await session.ask("where?", returns=Room), Room)
    assert_type(await session.ask("where?", returns=Place), Place)
    assert_type(await session.ask("how many?", returns=list[int]), list[int])
    assert_type(await session.ask("how many?", returns=int | str), int | str)
    assert_type(await session.ask("may it?", returns=Literal["yes", "no"]), Literal["yes", "no"])
    assert_type(await session.ask("which?", returns=Room | Kitchen), Room | Kitchen)
    assert_type(await session.ask("where?", returns=SCHEMA, command="one"), JsonObject)
    assert_type(await session.prompt("where?", returns=Room), Accepted)
    await session.prompt("where?", returns=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await session.ask("where?", returns=5)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
    SessionSpec(returns=Invoice)
    SessionSpec(returns=Place)
    SessionSpec(returns=SCHEMA)
    SessionSpec(returns=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
