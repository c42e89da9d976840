"""Answers in the form of classes of pydantic and msgspec: they hold as those of attrs do, also after a crash."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import msgspec
import pytest
import trio
from pydantic import BaseModel, Field, RootModel, field_validator

from agentrail import SessionHandle, open_supervisor
from agentrail.cli.running.run_options import schema_of
from agentrail.errors import AnswerUnfit
from agentrail.events import AnswerRejected, MessageDelta, ToolExecutionEnd
from agentrail.plugins import Planning
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.answer_forms import form_of
from agentrail.values.personal import Personal
from tests.kit import freeze
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.test_answers_of_classes import outcome, recorded, speaks
from tests.runtime.world import World


class Line(BaseModel):
    what: Personal[str]
    count: int = Field(1, ge=1)

    @field_validator("count")
    @classmethod
    def _even(cls, count: int) -> int:
        if count % 2:
            raise ValueError(f"{count} is odd")
        return count


class Card(BaseModel):
    by: Literal["card"]
    digits: str


class Cash(BaseModel):
    by: Literal["cash"]


class Bill(BaseModel):
    """A bill."""

    lines: list[Line]
    paid: Annotated[Card | Cash, Field(discriminator="by")] | None = None


class Even(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


ODD = '{"lines": [{"what": "tea", "count": 2}, {"what": "milk", "count": 3}], "paid": {"by": "cash"}}'
EVEN = ODD.replace("3", "4")
BILL = Bill(lines=[Line(what="tea", count=2), Line(what="milk", count=4)], paid=Cash(by="cash"))
REASON = "its class refuses it: ValueError: `lines.1.count`: Value error, 3 is odd"


def rejected(world: World, session: SessionHandle) -> list[str]:
    return [event.reason for event in world.heard(session).of(AnswerRejected)]


async def test_what_a_validator_refuses_goes_back_to_the_model_with_its_place(world: World) -> None:
    model = ScriptedModel([ODD, EVEN])
    session = await world.spawn(model)
    assert await session.ask("a bill", returns=Bill) == BILL
    assert rejected(world, session) == [REASON]
    assert REASON in str(model.requests[1].messages[-1])


async def test_a_struct_is_a_form_too(world: World) -> None:
    session = await world.spawn(['{"number": 3}', '{"number": "4"}', '{"number": 4}'])
    assert await session.ask("a number", returns=Even) == Even(4)
    first, second = rejected(world, session)
    assert first.startswith("its class refuses it: ValueError: 3 is odd")
    assert '`number`: found "4", wanted an integer' in second


async def test_numbers_as_texts_are_refused_as_in_other_classes(world: World) -> None:
    session = await world.spawn([EVEN.replace("4", '"4"'), EVEN])
    assert await session.ask("a bill", returns=Bill) == BILL
    (reason,) = rejected(world, session)
    assert '`lines[1].count`: found "4", wanted an integer' in reason


async def test_the_model_of_a_spec_holds_for_all_turns_and_for_sub_agents(world: World) -> None:
    session = await world.spawn([ODD, EVEN], returns=Bill)
    assert (await session.ask("a bill")).answer == freeze(BILL.model_dump())
    parent = await world.spawn([task(), "fine"], "p", agents={"finder": agent([ODD, EVEN], returns=Bill)})
    await parent.ask("go")
    (part,) = world.heard(parent).only(ToolExecutionEnd).content
    assert getattr(part, "data", None) == freeze(BILL.model_dump())


async def test_the_answer_streams_as_text_and_comes_beside_a_planner(world: World) -> None:
    session = await world.spawn([say(EVEN)], plugins=[Planning()])
    assert await session.ask("write a bill for tea and milk, please", returns=Bill) == BILL
    assert world.heard(session).said == EVEN
    assert len(world.heard(session).of(MessageDelta)) > 1


async def test_the_answer_may_come_by_the_tool_in_place_of_text(world: World) -> None:
    model = ScriptedModel([say(calls=[call("answer", json.loads(ODD))]), say(calls=[call("answer", json.loads(EVEN))])])
    session = await world.spawn(model)
    assert await session.ask("a bill", returns=Bill) == BILL
    assert rejected(world, session) == [REASON]


class Stricter(BaseModel):
    """The class as it was edited later: of the same schema, with another validator."""

    lines: list[Line]
    paid: Annotated[Card | Cash, Field(discriminator="by")] | None = None

    @field_validator("lines")
    @classmethod
    def _few(cls, lines: list[Line]) -> list[Line]:
        if len(lines) > 1:
            raise ValueError("one line is enough")
        return lines


Stricter.__name__, Stricter.__doc__ = "Bill", Bill.__doc__
Stricter.model_config["title"] = "Bill"
Stricter.model_rebuild(force=True)


async def test_after_a_restart_the_edited_class_reads_the_stored_answer() -> None:
    assert form_of(Stricter).schema == form_of(Bill).schema
    records = await recorded(speaks(EVEN), Bill)
    actual, _ = await outcome(records, speaks(), Stricter)
    assert isinstance(actual, AnswerUnfit)
    assert "`lines`: Value error, one line is enough" in str(actual)


async def test_after_a_restart_without_the_class_the_answer_is_its_json() -> None:
    records = await recorded(speaks(EVEN), Bill)
    journal = TestJournal()
    await journal.append(await journal.claim("s", "before"), 0, records)
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", speaks())
        with trio.fail_after(10):
            answer = await session.ask("a number", returns=form_of(Bill).schema, command="one")
    assert answer == freeze(BILL.model_dump())


class Names(RootModel[list[str]]):
    pass


class Node(BaseModel):
    children: list[Node] = []


async def test_a_model_that_is_no_object_is_wrapped_in_one(world: World) -> None:
    session = await world.spawn(['{"value": ["ann"]}', '{"children": [{}]}'])
    assert await session.ask("names", returns=Names) == Names(["ann"])
    assert await session.ask("a tree", returns=Node) == Node(children=[Node()])


@pytest.mark.parametrize("model", [Bill, Node])
def test_a_schema_that_pydantic_writes_is_one_for_the_command_line(model: type[BaseModel]) -> None:
    written = json.dumps(model.model_json_schema())
    assert schema_of(written)["type"] == "object"
