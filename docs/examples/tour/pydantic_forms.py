"""Classes of pydantic: as the argument of a tool, and as the answer, with all that their validators say.

What does not fit is told to the model, which calls or answers again: here the guests of a call, and the first note.

    2 tables for ann@example.org
    the arguments do not fit `reserve`: `party.guests`: found 0, wanted at least 1
    Booking(tables=2, note='by the window')
"""

import trio
from pydantic import BaseModel, Field, field_validator

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.testing import ScriptedModel, call, say


class Party(BaseModel):
    """Who comes."""

    contact: str = Field(pattern=r"^\S+@\S+$")
    guests: int = Field(ge=1)


class Booking(BaseModel):
    """What was booked."""

    tables: int
    note: str

    @field_validator("note")
    @classmethod
    def short(cls, note: str) -> str:
        if len(note) > 20:
            raise ValueError("use 20 characters at most")
        return note


@tool
async def reserve(party: Party) -> str:
    """Reserve tables of four."""
    return f"{-(-party.guests // 4)} tables for {party.contact}"


async def main() -> None:
    parties = [{"contact": "ann@example.org", "guests": guests} for guests in (7, 0)]
    notes = ["a table by the window, please", "by the window"]
    answers = [f'{{"tables": 2, "note": "{note}"}}' for note in notes]
    model = ScriptedModel([say(calls=[call("reserve", {"party": party}) for party in parties]), *answers])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[reserve]))
        booking = await session.ask("A table for seven, please.", returns=Booking)
        for message in session.messages()[2:4]:
            print(message.text)
        print(repr(booking))


trio.run(main)
