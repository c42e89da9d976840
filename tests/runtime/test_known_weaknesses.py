"""What is known to go wrong with compaction in systems of this kind, and the tests that hold that it does not here."""

from __future__ import annotations

from typing import Final

from agentrail import Context, Continue, Plugin, ReplaceMessages, SessionSpec, open_supervisor, tool
from agentrail.events import CompactEnd, ContextOverflow
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, ModelRequest, Response, Usage
from agentrail.plugins import BeforeCompaction
from agentrail.testing import ScriptedModel, call, overflow, say
from agentrail.values.messages import why_unfit
from tests.each_case import each_case
from tests.kit import Element
from tests.parsed import ROOT, functions_of
from tests.runtime.test_compaction import LONG, SUMMARY, Talker, compactions, happened, is_summary, spec, talk, text_of

WEAKNESSES: Final = {
    "what fills the context is the total of the session's tokens": (
        "tests/runtime/test_known_weaknesses.py::test_tokens_that_were_used_and_are_gone_do_not_fill_the_context",
        (
            "tests/core/test_context_budget.py::"
            "test_the_count_of_the_last_response_is_the_base_and_what_came_since_is_estimated"
        ),
    ),
    "the system prompt, tools and sections are not counted": (
        "tests/core/test_context_budget.py::test_system_prompt_sections_tools_and_the_form_of_answers_count",
    ),
    "the window is a constant, whatever the model": (
        "tests/core/test_context_budget.py::test_the_window_is_the_option_else_that_of_the_table_else_assumed",
        "tests/adapters/test_windows.py::test_every_model_that_an_adapter_names_has_a_window",
    ),
    "two limits: what is loaded is less than what triggers a compaction, so messages vanish unsaid": (
        "tests/runtime/test_long_sessions.py::test_a_long_session_stays_within_its_window_and_forgets_nothing",
    ),
    "a fixed number of messages is kept, and a result is parted from its call": (
        "tests/cells/test_compaction.py::test_a_compaction_never_splits_a_call_from_its_result",
    ),
    "what was dropped is lost, or only in files that nobody can search": (
        "tests/runtime/test_compaction.py::test_the_model_compacts_by_itself_and_reads_what_has_left",
    ),
    "the archive is read from its beginning each time": (
        (
            "tests/tools/builtin/test_remembering.py::"
            "test_a_range_is_read_from_the_records_that_have_it_however_many_there_are"
        ),
    ),
    "nothing is pinned: the task itself is summed up": (
        "tests/runtime/test_compaction.py::test_older_messages_are_replaced_by_a_summary_that_the_model_writes",
    ),
    "old results stay whole until all is summed up": (
        "tests/runtime/test_compaction.py::test_older_results_and_arguments_are_shortened_first",
    ),
    "the tool that compacts runs and changes nothing": (
        "tests/runtime/test_compaction.py::test_the_model_compacts_by_itself_and_reads_what_has_left",
    ),
    "a hook promises to change what is compacted, and has no action for it": (
        "tests/runtime/test_known_weaknesses.py::test_a_plugin_chooses_what_is_compacted",
    ),
    "an overflow is known by words of the error": (
        (
            "tests/adapters/models/test_faults.py::"
            "test_a_bad_request_that_says_that_the_context_is_too_long_is_an_overflow"
        ),
        "tests/adapters/models/test_anthropic.py::test_a_context_that_is_too_long_may_be_said_in_the_stream",
    ),
    "an overflow is compacted again and again": (
        "tests/runtime/test_compaction.py::test_an_overflow_is_compacted_and_the_second_one_aborts",
    ),
    "an overflow takes one of the turn's rounds": (
        "tests/runtime/test_known_weaknesses.py::test_an_overflow_takes_no_round",
    ),
    "nobody looks whether the context fits afterwards": (
        "tests/runtime/test_compaction.py::test_a_prompt_that_never_fits_is_a_typed_error_and_no_loop",
        (
            "tests/runtime/test_crowded.py::"
            "test_what_is_pinned_between_target_and_trigger_holds_up_no_session_and_costs_no_summary"
        ),
    ),
    "without a summary nothing is made shorter": (
        "tests/runtime/test_compaction.py::test_a_summary_that_will_not_do_is_left_out_and_the_messages_are_dropped",
    ),
    "a summary has no time limit, and an abort waits for it": (
        "tests/runtime/test_compaction.py::test_a_summary_that_takes_too_long_is_left_out",
        (
            "tests/runtime/test_compaction.py::"
            "test_while_a_summary_is_written_the_session_runs_and_says_so_and_abort_ends_it"
        ),
    ),
    "a summary is not tried again": (
        "tests/runtime/test_summaries.py::test_a_summary_that_fails_for_a_passing_reason_is_tried_again",
    ),
    "a guard of costs sees requests of turns alone": (
        "tests/runtime/test_summaries.py::test_a_budget_counts_the_request_for_a_summary_before_it_is_sent",
        "tests/runtime/test_summaries.py::test_each_attempt_is_paid_for",
    ),
    "what sub-agents use for it is not added up": (
        "tests/runtime/test_known_weaknesses.py::test_a_sub_agent_is_compacted_and_its_summaries_count_for_its_parent",
    ),
    "a compaction overwrites what was appended meanwhile": (
        "tests/cells/test_compaction.py::test_a_prompt_waits_for_the_compaction",
        "tests/cells/test_compaction.py::test_steering_that_came_during_a_compaction_is_merged_before_the_request",
    ),
    "a crash in the middle of it loses messages": (
        "tests/recovery/test_summarised.py::test_a_summary_is_made_again_once_and_nothing_is_lost",
    ),
    "what was compacted in memory is whole again, and too long, after a restart": (
        "tests/runtime/test_known_weaknesses.py::test_what_was_compacted_is_compacted_after_a_restart",
    ),
    "nobody is told that the provider's cache is lost": (
        "tests/cells/test_compaction.py::test_what_was_asked_for_during_a_turn_is_done_before_the_next_request",
    ),
    "it blocks the loop": ("tests/runtime/test_many_calls.py::test_a_compaction_of_so_many_calls_makes_no_step_long",),
}
"""Each weakness, and the tests (or the beginning of their names) that hold it off."""


@each_case(WEAKNESSES)
def test_each_weakness_has_a_test(weakness: str) -> None:
    for named in WEAKNESSES[weakness]:
        file, _, beginning = named.partition("::")
        assert any(name.startswith(beginning) for name in functions_of(ROOT / file)), named


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
        (stored,) = [each for each in await supervisor.stored() if each.session_id != "p"]
        records = await journal.read(stored.session_id, 0, 1_000)
        ends = [one.event for record in records for one in record.events if isinstance(one.event, CompactEnd)]
        summaries = sum("replaced by a summary" in end.note for end in ends)
        assert summaries >= 1
        assert session.status().usage.input_tokens // 100_000 == summaries


async def test_what_was_compacted_is_compacted_after_a_restart() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(Talker()), "s")
        await talk(session, 5)
        before = session.messages()
        assert SUMMARY in text_of(before)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec(Talker()))
        assert session.messages() == before
