"""What is known to go wrong with compaction in systems of this kind, as far as no other file tries it."""

from __future__ import annotations

from agentrail import Context, Continue, Plugin, ReplaceMessages, SessionSpec, open_supervisor, tool
from agentrail.events import CompactEnd, ContextOverflow
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, ModelRequest, Response, Usage
from agentrail.plugins import BeforeCompaction
from agentrail.testing import ScriptedModel, call, overflow, say
from agentrail.values.messages import why_unfit
from tests.kit import Element
from tests.runtime.test_compaction import LONG, SUMMARY, Talker, compactions, happened, is_summary, spec, talk, text_of


async def test_tokens_that_were_used_and_are_gone_do_not_fill_the_context() -> None:
    model = ScriptedModel([say("short", usage=Usage(400, 10))], repeat_last=True)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        for number in range(20):
            await session.ask(f"number {number}")
        assert session.status().usage.total_tokens == 20 * 410
        assert await compactions(session) == []


async def test_a_plugin_chooses_what_is_compacted() -> None:
    class LastOnly(Plugin):
        def before_compact(
            self, hook: BeforeCompaction, state: None, ctx: Context
        ) -> Continue[None] | ReplaceMessages[None]:
            return ReplaceMessages(hook.messages[-1:])

    model = Talker()
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, plugins=[LastOnly()]))
        await talk(session, 4)
        assert [message.text[:8] for message in session.messages()] == ["number 3", "go on, p"]
        assert model.summaries == []


async def test_an_overflow_takes_no_round() -> None:
    model = ScriptedModel(["one", "two", overflow("too long"), SUMMARY, "three"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, max_rounds=1))
        await session.ask("first. " + "word " * 300)
        await session.ask("second. " + "word " * 300)
        reply = await session.ask("third")
        assert (reply.text, [type(event) for event in await happened(session)].count(ContextOverflow)) == ("three", 1)


class Finder:
    """Looks twice, and then answers; each of its summaries uses 100,000 tokens."""

    name = "scripted"

    def __init__(self) -> None:
        self._model = ScriptedModel([self._answer], repeat_last=True)
        self._looked = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        return await self._model.stream(request, emit)

    def _answer(self, request: ModelRequest) -> Element:
        assert why_unfit(request.messages) is None
        if is_summary(request):
            return say(SUMMARY, usage=Usage(100_000, 1))
        self._looked += 1
        return say(calls=[call("look")]) if self._looked <= 4 else "under the sofa"


async def test_a_sub_agent_is_compacted_and_its_summaries_count_for_its_parent() -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return LONG * 2

    child = SessionSpec(model=Finder(), description="Finds things.", tools=[look], context_window=1_000)
    asks = call("task", {"agent": "finder", "description": "find", "prompt": "find it"})
    model = ScriptedModel([say(calls=[asks]), "found"])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, agents={"finder": child}), "p")
        assert (await session.ask("where is it?")).text == "found"
        (stored,) = [session_ for session_ in await supervisor.stored() if session_.session_id != "p"]
        records = await journal.read(stored.session_id, 0, 1_000)
        ends = [event.event for record in records for event in record.events if isinstance(event.event, CompactEnd)]
        summaries = sum("replaced by a summary" in end.note for end in ends)
        assert summaries >= 1
        assert session.status().usage.input_tokens // 100_000 == summaries


async def test_what_was_compacted_is_compacted_after_a_restart() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(Talker()), "s")
        await talk(session, 5)
        old_messages = session.messages()
        assert SUMMARY in text_of(old_messages)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec(Talker()))
        assert session.messages() == old_messages
