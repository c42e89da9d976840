"""`SessionHandle.by`: records and events say who gave a command."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from msgspec import UNSET

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.stored_form import stored_record
from agentrail.api.command_checks import LONGEST_NAME
from agentrail.errors import WrongType
from agentrail.journals import MemoryJournal, Record, audit
from agentrail.plugins import HumanApproval
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.caller import Caller
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.testing import ScriptedModel, call, say
from tests.kit import AbortSent
from tests.runtime.families import agent, task
from tests.runtime.test_sources import Scripted, offering
from tests.runtime.tools import quick

WHO: Final = "anna@example.org"


@tool
async def note(text: str) -> str:
    """Note something."""
    return f"noted: {text}"


def spec(*script: object) -> SessionSpec:
    held = say(calls=[call("note", {"text": "a"})])
    model = ScriptedModel(list(script) or [held, "done"], repeat_last=True)  # type: ignore[arg-type]  # elements
    return SessionSpec(model=model, tools=[note], plugins=[HumanApproval(tools=["note"])])


async def held(session: SessionHandle) -> str:
    (hold,) = (await session.ask("go on")).held
    return hold.id


async def approve(session: SessionHandle, who: SessionHandle) -> None:
    await who.approve(await held(session))


async def reject(session: SessionHandle, who: SessionHandle) -> None:
    await who.reject(await held(session), "no")


CALLS: Final[dict[str, Callable[[SessionHandle, SessionHandle], Awaitable[object]]]] = {
    "PromptSent": lambda _, who: who.prompt("hello"),
    "SteerSent": lambda _, who: who.steer("hello"),
    "AbortSent": lambda _, who: who.abort("enough"),
    "ApproveSent": approve,
    "RejectSent": reject,
    "SwitchModelSent": lambda _, who: who.switch_model("demo"),
    "ChangeToolsSent": lambda _, who: who.attach_tools(quick("other")),
    "UpdatePluginSent": lambda _, who: who.update_plugin(HumanApproval, timeout=5.0),
    "DetachPluginSent": lambda _, who: who.detach_plugin(HumanApproval),
    "CompactSent": lambda _, who: who.compact(),
    "LabelSent": lambda _, who: who.label(["new"]),
    "StopSent": lambda _, who: who.stop(),
}


async def lived(
    journal: MemoryJournal, does: Callable[[SessionHandle, SessionHandle], Awaitable[object]]
) -> tuple[Record, ...]:
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await does(session, session.by(WHO))
        records = await journal.read("s")
    assert await audit(journal, "s") == ()
    return records


@pytest.mark.parametrize("kind", CALLS)
async def test_the_record_and_the_events_of_each_command_say_who_gave_it(kind: str) -> None:
    records = await lived(MemoryJournal(encode=True), CALLS[kind])
    given_records = [record for record in records if type(record.arrival.input).__name__ == kind]
    assert [record.arrival.by for record in given_records[-1:]] == [WHO]
    for record in records:
        assert record.arrival.by == (WHO if record is given_records[-1] else "")
        assert {envelope.by for envelope in record.events} <= {record.arrival.by}
        assert all(item.by is UNSET for item in stored_record(record, MessageReferences()).moved)  # it is stored once
    assert given_records[-1].events or kind in ("AbortSent", "SteerSent")


async def test_subscribers_are_told_who_it_was() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec("well"), "s")
        async with session.subscribe() as events:
            await session.by(WHO).label(["new"])
            envelope = await anext(aiter(events))
    assert envelope.by == WHO


async def test_a_source_of_tools_is_attached_by_who_asked_for_it() -> None:
    async def attach(_: SessionHandle, who: SessionHandle) -> None:
        await who.attach_tools(Scripted("one", [offering("a", "b")]))

    records = await lived(MemoryJournal(encode=True), attach)
    assert [record.arrival.by for record in records if record.arrival.by] == [WHO]


def test_of_aborts_that_are_one_the_first_who_is_named_counts() -> None:
    mailbox = Mailbox("s", Gate())
    aborts = [Letter(AbortSent(), answer=Slot(), caller=Caller(who)) for who in ("", WHO, "bob")]
    for abort in aborts:
        mailbox.post_control(abort)
    (waiting,) = mailbox.control
    assert waiting.caller.who == WHO
    assert [abort.answer for abort in aborts] == [waiting.answer] * 3


async def test_a_decision_about_a_call_of_a_subagent_says_who_made_it() -> None:
    journal = MemoryJournal(encode=True)
    helper = agent([say(calls=[call("note", {"text": "a"})]), "done"], tools=[note], plugins=[HumanApproval(["note"])])
    parent = SessionSpec(model=ScriptedModel([task("helper"), "well"]), agents={"helper": helper})
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(parent, "s")
        (hold,) = (await session.ask("go on")).held
        await session.by(WHO).approve(hold.id)
        (below,) = [stored.session_id for stored in await journal.sessions() if stored.session_id != "s"]
        records = await journal.read(below)
    assert [type(record.arrival.input).__name__ for record in records if record.arrival.by == WHO] == ["ApproveSent"]


async def test_a_command_that_is_repeated_by_another_gets_the_same_answer() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec("well"), "s")
        first = await session.by(WHO).prompt("hello", command="c")
        assert await session.by("bob").prompt("hello", command="c") == first


@pytest.mark.parametrize("who", [5, None, b"anna", "a" * (LONGEST_NAME + 1)], ids=["5", "None", "bytes", "long"])
async def test_who_it_is_must_be_a_short_text(who: str) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec("well"), "s")
        with pytest.raises(WrongType, match="text of at most 200 characters"):
            session.by(who)
