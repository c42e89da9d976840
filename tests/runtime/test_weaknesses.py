"""Weak points of earlier systems in prompts, what plugins ask for, tools, answers and parts: each is a test.

The first part is a list, which names the tests that are elsewhere; those that had none are in the second part.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import pytest
from attrs import frozen

from agentrail import (
    AddContext,
    Ask,
    Context,
    Emit,
    Plugin,
    SessionHandle,
    SessionSpec,
    SetSection,
    open_supervisor,
    tool,
)
from agentrail.core.compaction import LEFT_OUT
from agentrail.errors import PermanentModelError, PluginExists, TurnAborted
from agentrail.events import CompactEnd, Event, PluginError, PrefixChanged
from agentrail.models import AskModel, Image, Json, Leaving, Text, ToolMessage, UserMessage
from agentrail.plugins import Answered, BeforePrompt, BeforeRequest, CallService, Keyed
from agentrail.testing import ScriptedModel, call, fail, say, transient
from agentrail.tools import ToolResult, ok
from agentrail.values.content import text_of
from tests.parsed import functions_of

IMAGE: Final = "aGVsbG8=" * 2_000
TESTS: Final = Path(__file__).parents[1]
HERE: Final = "runtime/test_weaknesses.py"
FOLDS: Final = "cells/test_folding.py"
ASKS: Final = "cells/test_asks.py"
PLUGINS: Final = "runtime/test_plugins.py"
CHANGED: Final = "adapters/models/test_prefix_changed.py"
RECORDS: Final = "adapters/journals/test_model_requests.py"
PREFIXES: Final = "adapters/models/test_prefixes.py"
ON_DEMAND: Final = "runtime/test_tools_on_demand.py"
USAGE: Final = "adapters/models/test_usage.py"
ANSWERS: Final = "runtime/test_typed_answers.py"
SCREENS: Final = "runtime/test_screening.py"

WEAKNESSES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    # The contract of plugins
    (
        "a failing `init` stops the start or skips the plugin, depending on the page",
        ("cells/test_broken_plugins.py::test_a_plugin_may_refuse_the_session",),
    ),
    (
        "nobody says what a plugin that crashes has answered",
        (
            "cells/test_broken_plugins.py::test_a_plugin_that_raises_is_reported_and_the_next_ones_are_asked",
            "cells/test_broken_plugins.py::test_a_critical_plugin_that_raises_counts_as_an_abort",
        ),
    ),
    (
        "the same plugin a second time overwrites the state of the first",
        (f"{HERE}::test_a_plugin_of_the_same_class_is_refused_or_has_a_key_and_a_state_of_its_own",),
    ),
    (
        "the state of an action is not where a helper looks for it",
        ("hooks/test_contract.py::test_an_action_says_its_name_its_state_and_whether_it_stops_the_pipeline",),
    ),
    (
        "an action that a plugin uses, for the result of a tool, is in no table",
        ("hooks/test_contract.py::test_the_matrix_is_read_off_the_signatures",),
    ),
    (
        "a hook is listed with one action less in one table than in the other",
        ("cells/test_matrix.py::test_the_matrix_is_that_of_the_design",),
    ),
    (
        "new options replace the state or are merged into it, depending on the page",
        ("cells/test_hot_update.py::test_the_plugin_in_its_new_form_says_with_which_state_it_goes_on",),
    ),
    (
        "plugins of one priority have no order",
        (f"{FOLDS}::test_lower_priorities_are_asked_first_and_equal_ones_in_order_of_registration",),
    ),
    (
        "an action that a hook does not accept is ignored silently",
        ("cells/test_broken_plugins.py::test_a_malformed_answer_is_reported_and_nothing_comes_of_it",),
    ),
    ("a plugin cannot emit and abort at once", (f"{FOLDS}::test_any_action_can_also_emit",)),
    (
        "the last plugin that replaces something wins, and later ones do not see it",
        (
            f"{FOLDS}::test_each_plugin_sees_the_arguments_that_the_one_before_it_left",
            f"{FOLDS}::test_each_plugin_sees_the_messages_that_the_one_before_it_left",
            f"{FOLDS}::test_each_plugin_sees_the_result_that_the_one_before_it_left",
        ),
    ),
    (
        "hooks before a request and a compaction have no action for messages",
        ("cells/test_matrix.py::test_the_compaction_sees_the_new_messages",),
    ),
    (
        "a model that is switched at a tool error is never used",
        ("cells/test_matrix.py::test_a_tool_error_may_change_the_model_of_the_next_request",),
    ),
    (
        "events with certain names are commands that change the prompt",
        (f"{HERE}::test_an_event_changes_nothing_whatever_its_name",),
    ),
    # What plugins ask for
    (
        "of a list of messages, the last one of the user alone is used",
        (
            f"{PLUGINS}::test_a_plugin_asks_a_model_for_an_object_about_messages",
            "runtime/test_calls.py::test_a_prompt_can_have_parts",
        ),
    ),
    (
        "the answer to an error may switch the model, and the attempt that follows has the old one",
        (
            "cells/test_matrix.py::test_a_tool_error_may_change_the_model_of_the_next_request",
            "cells/test_matrix.py::test_a_result_may_change_the_model_of_the_next_request",
            "cells/test_matrix.py::test_this_request_goes_to_the_new_model",
        ),
    ),
    (
        "a judge that takes seconds blocks the session, an abort included",
        (f"{PLUGINS}::test_meanwhile_the_session_is_responsive", f"{PLUGINS}::test_a_late_answer_is_ignored"),
    ),
    (
        "a hook has no limit of time, and no end of its requests",
        (f"{PLUGINS}::test_a_deadline_is_an_answer_too", f"{ASKS}::test_the_ninth_ask_of_one_run_is_a_crash"),
    ),
    (
        "what a plugin starts is not stopped with the session",
        (f"{PLUGINS}::test_stopping_while_a_plugin_asks_ends_everything",),
    ),
    (
        "tools that a plugin or skill runs pass no guard",
        ("cells/test_guards.py::test_a_tool_that_a_plugin_asks_for_is_ruled_on_by_the_others",),
    ),
    (
        "nobody says whether what a helper uses counts for the session",
        (f"{PLUGINS}::test_what_a_model_was_asked_by_a_plugin_is_paid_for_also_without_an_answer",),
    ),
    (
        "an empty or wrong answer of a model counts as a success",
        (f"{PLUGINS}::test_a_plugin_asks_a_model_for_an_object_about_messages",),
    ),
    (
        "memories are looked for at the start of a session, before there is a prompt to look for",
        (f"{HERE}::test_what_is_looked_up_for_the_first_prompt_is_in_its_request",),
    ),
    # The system prompt
    (
        "a counter of turns in the system prompt, and tools that go at the last turn, defeat the cache",
        (f"{PREFIXES}::test_the_last_request_of_a_turn_keeps_the_prefix_as_it_forbids_calls",),
    ),
    (
        "no care for the prompt cache: dates, counters and output change the prefix",
        (
            f"{PREFIXES}::test_the_common_prefix_of_fifty_turns_shrinks_at_compactions_alone",
            f"{CHANGED}::test_each_edit_is_told_with_its_part_and_plugin_and_nothing_else_is",
        ),
    ),
    (
        "texts that nobody wrote, in one language, are in each prompt",
        (f"{HERE}::test_a_prompt_has_no_text_that_its_program_did_not_give",),
    ),
    (
        "a plan that is kept in the system prompt changes its beginning with each step",
        (f"{HERE}::test_a_plan_that_changes_leaves_what_stands_before_it",),
    ),
    (
        "old results are shortened in a view that moves with each request",
        (f"{HERE}::test_what_was_shortened_stays_as_it_is_until_the_next_compaction",),
    ),
    (
        "layers of the prompt are made, and a sub-agent gets all of them or none",
        (
            "runtime/test_system_prompt.py::test_each_mode_sends_its_layers_in_order",
            "runtime/test_system_prompt.py::test_a_session_gets_all_layers_and_a_subagent_those_of_a_task",
        ),
    ),
    (
        "cache points are set by an event, for one provider",
        ("adapters/models/test_goldens.py::test_a_history_is_rendered_as_it_was_before",),
    ),
    # Added context
    (
        "an error of one that adds context hangs the request",
        (f"{HERE}::test_one_that_breaks_leaves_the_context_of_the_others",),
    ),
    (
        "what an addition returns may be the addition or the whole list",
        (f"{FOLDS}::test_added_context_follows_the_messages_in_the_order_of_the_plugins",),
    ),
    (
        "nobody knows whether context is added once for a request or for each attempt",
        (f"{HERE}::test_each_attempt_has_context_of_its_own_once",),
    ),
    (
        "added context is found in no record",
        (
            f"{RECORDS}::test_context_that_was_added_for_one_request_is_read_with_who_added_it",
            f"{RECORDS}::test_added_context_is_in_the_records_of_its_request_alone",
        ),
    ),
    # Rewriting what is said
    (
        "no plugin can take a secret out of what becomes a record, an event or a delta",
        (
            f"{SCREENS}::test_every_text_of_every_input_is_screened",
            "recovery/test_screened.py::test_a_key_in_each_place_is_in_no_file_afterwards",
            "recovery/test_screened.py::test_a_process_that_is_killed_between_acceptance_and_hook_leaves_no_key",
            f"{SCREENS}::test_deltas_say_what_the_response_says",
        ),
    ),
    (
        "a plugin that fails lets through what it was to hold back",
        (f"{SCREENS}::test_what_breaks_leaves_the_text_or_withholds_it_and_is_told_without_the_text",),
    ),
    (
        "what guards a session is not there in its sub-agents",
        (f"{SCREENS}::test_a_sub_agent_screens_by_the_plugin_of_its_parent",),
    ),
    # Tools on demand
    (
        "the definitions of all tools are in each request",
        ("adapters/models/test_tools_on_demand.py::test_the_definitions_of_300_tools_are_left_out",),
    ),
    (
        "a tool that is called in another way passes no guard",
        (f"{ON_DEMAND}::test_a_guard_rules_on_the_tool_and_its_arguments",),
    ),
    (
        "what was found is forgotten at a compaction or a restart",
        (
            f"{ON_DEMAND}::test_what_was_found_is_told_again_after_a_compaction",
            f"{ON_DEMAND}::test_what_was_found_is_known_in_another_process_and_in_a_fork",
            "adapters/models/test_tool_search.py::test_a_found_tool_stays_after_a_compaction",
            "adapters/models/test_tool_search.py::test_a_found_tool_stays_in_another_process",
        ),
    ),
    # Typed answers
    (
        "a call that was cut off is read leniently, as a smaller object",
        (f"{ANSWERS}::test_a_call_of_the_tool_that_was_cut_off_is_no_answer",),
    ),
    (
        "an answer that does not fit counts, or is asked for without end",
        (f"{ANSWERS}::test_an_answer_that_never_fits_is_a_typed_error",),
    ),
    (
        "the result of a sub-agent is its last text, whatever was wanted",
        ("runtime/test_answers_of_classes.py::test_the_class_of_a_sub_agent_refuses_too",),
    ),
    (
        "an error of the provider is a message of the model, and the turn a success without a text",
        (
            f"{HERE}::test_an_error_of_the_provider_is_no_message_and_no_answer",
            "cells/test_failures.py::test_nothing_at_all_twice_is_an_error",
        ),
    ),
    (
        "images in old results are replaced by a number, or by nothing",
        (f"{HERE}::test_an_image_that_leaves_the_context_is_told_of",),
    ),
    (
        "values are not checked as they are said: missing fields, defaults and other types pass",
        ("adapters/models/test_typed_answers.py::test_the_object_fits_or_there_is_a_typed_error",),
    ),
    # Parts
    (
        "the cost that a provider tells counts as 0",
        (f"{USAGE}::test_the_cost_that_a_server_tells_is_the_cost_unless_there_is_a_price_of_ones_own",),
    ),
    (
        "messages are of text alone",
        ("runtime/test_files.py::test_a_file_in_a_prompt_and_in_a_result_reaches_the_model",),
    ),
    (
        "a model that cannot take a part fails at the request, and at each one after it",
        (
            "runtime/test_files.py::test_a_model_that_takes_no_such_file_says_so_before_anything_is_sent",
            "adapters/models/test_unseen.py::test_a_prompt_is_refused_before_anything_is_sent",
            "adapters/models/test_unseen.py::test_in_a_history_a_text_stands_in_the_place_of_an_image",
        ),
    ),
)
"""Each weak point, with the tests that show that it is none here."""


@pytest.mark.parametrize(("weakness", "tests"), WEAKNESSES, ids=[weakness for weakness, _ in WEAKNESSES])
def test_each_weakness_has_a_test(weakness: str, tests: tuple[str, ...]) -> None:
    for named in tests:
        path, _, name = named.partition("::")
        assert name in functions_of(TESTS / path), f"{weakness}: there is no {named}"


# Those without a test elsewhere


class Commands(Plugin[None]):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Emit[None]:
        return Emit([("memory_contents", "new"), ("update_system_context", "new"), ("synthetic_tool_results", "new")])


async def test_an_event_changes_nothing_whatever_its_name() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Commands()], system="Help."))
        await session.ask("go")
        request = model.requests[0]
        assert (request.system, request.background, request.sections) == ("Help.", (), ())
        assert [text_of(one.parts) for one in request.messages if isinstance(one, UserMessage)] == ["go"]


class Recalls(Plugin[None]):
    """Looks up what is known about the prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask[None] | SetSection[None]:
        if isinstance(hook.answer, Answered):
            return SetSection("recalled", str(hook.answer.value))
        return Ask(CallService("recall", hook.text))


async def test_a_plugin_of_the_same_class_is_refused_or_has_a_key_and_a_state_of_its_own() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        with pytest.raises(PluginExists, match="Tells"):
            await supervisor.spawn(SessionSpec(model=model, plugins=[Tells(), Tells()]))
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Tells(), Keyed("other", Tells(5))]))
        await session.ask("go")
        assert (session.inspect().plugin_state("Tells"), session.inspect().plugin_state("other")) == (1, 6)


class Plans(Plugin[int]):
    """Keeps a plan, which changes with each request."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> SetSection[int]:
        return SetSection("plan", f"{state} steps are done", state + 1)


async def test_a_plan_that_changes_leaves_what_stands_before_it() -> None:
    model = ScriptedModel(["one", "two"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Plans()], system="Help."))
        await session.ask("go")
        await session.ask("on")
        assert not [event for event in await told(session) if isinstance(event, PrefixChanged)]
    first, second = model.requests
    assert [request.sections for request in model.requests] == [
        (("plan", "0 steps are done"),),
        (("plan", "1 steps are done"),),
    ]
    assert (first.system, first.background) == (second.system, second.background) == ("Help.", ())
    assert tuple(second.messages)[: len(first.messages)] == tuple(first.messages)


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    return f"{at} found " * 200


async def written(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - the parameters of a compactor
    return "there was talk"


async def test_what_was_shortened_stays_as_it_is_until_the_next_compaction() -> None:
    script = [one for turn in range(12) for one in (say(calls=[call("look", {"at": f"{turn}"})]), f"done {turn}")]
    model = ScriptedModel(script)
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, tools=[look], context_window=2_500, compactor=written)
        session = await supervisor.spawn(spec)
        for turn in range(12):
            await session.ask(f"turn {turn}")
        events = await told(session)
    compactions = [event for event in events if isinstance(event, CompactEnd)]
    assert any("were shortened" in end.note for end in compactions), compactions
    changes = [event for event in events if isinstance(event, PrefixChanged)]
    assert [event.name for event in changes] == ["compaction"] * len(compactions)
    moved = [
        place
        for place, (before, after) in enumerate(pairwise(model.requests))
        if tuple(after.messages)[: len(before.messages)] != tuple(before.messages)
    ]
    assert len(moved) == len(compactions)


@pytest.mark.parametrize("text", ["", "It is red. " * 500], ids=["an image alone", "beside a text"])
async def test_an_image_that_leaves_the_context_is_told_of(text: str) -> None:
    @tool(effect="pure")
    async def see() -> ToolResult:
        """Look at the wall."""
        return ok([Image("image/png", IMAGE), *([Text(text)] if text else [])])

    model = ScriptedModel([say(calls=[call("see")]), "red", "yes", "no"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[see], context_window=1_000, compactor=written))
        for said in ("look", "and? " * 100, "so? " * 100):
            await session.ask(said)
        await session.compact()
        (result,) = [message for message in session.messages() if isinstance(message, ToolMessage)]
    assert [type(part) for part in result.parts] == [Text]
    assert result.text.endswith(LEFT_OUT)
    assert ("left out…" in result.text) == bool(text)


async def test_an_error_of_the_provider_is_no_message_and_no_answer() -> None:
    model = ScriptedModel([fail(PermanentModelError("no such thing"))])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model))
        with pytest.raises(TurnAborted, match="no such thing"):
            await session.ask("go")
        assert [type(message) for message in session.messages()] == [UserMessage]


async def told(session: SessionHandle) -> list[Event]:
    """Return all events of the session so far."""
    found: list[Event] = []
    async with session.subscribe(since=0) as events:
        async for envelope in events:
            found.append(envelope.event)
            if envelope.seq >= session.inspect().last_seq:
                break
    return found


async def recall(payload: Json) -> Json:
    return f"about {payload}: blue"


async def test_what_is_looked_up_for_the_first_prompt_is_in_its_request() -> None:
    model = ScriptedModel(["yes"])
    spec = SessionSpec(model=model, plugins=[Recalls()], services={"recall": recall})
    async with open_supervisor() as supervisor:
        await (await supervisor.spawn(spec)).ask("the sky")
    assert model.requests[0].sections == (("recalled", "about the sky: blue"),)


@pytest.mark.parametrize("mode", ["full", "task", "none"])
async def test_a_prompt_has_no_text_that_its_program_did_not_give(mode: Literal["full", "task", "none"]) -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, prompt_mode=mode))
        await session.ask("go")
    request = model.requests[0]
    assert (request.system, request.background, request.sections) == ("", (), ())


@frozen
class Tells(Plugin[int]):
    """Adds context with a number of its own."""

    first: int = 0

    def init(self, ctx: Context) -> int:
        return self.first

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> AddContext[int]:
        return AddContext(f"attempt {hook.attempt}, told {state}", state + 1)


class Breaks(Plugin[None]):
    priority = 1

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        raise OSError


def _last(model: ScriptedModel, place: int) -> list[str]:
    return [text_of(one.parts) for one in model.requests[place].messages if isinstance(one, UserMessage)]


async def test_one_that_breaks_leaves_the_context_of_the_others() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Breaks(), Tells()]))
        async with session.subscribe(types=[PluginError]) as events:
            await session.ask("go")
            told = (await anext(events)).event
    assert isinstance(told, PluginError)
    assert (told.plugin, told.hook) == ("Breaks", "before_request")
    assert _last(model, 0) == ["go", "attempt 1, told 0"]


async def test_each_attempt_has_context_of_its_own_once() -> None:
    model = ScriptedModel([transient(), "yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Tells()]))
        await session.ask("go")
    assert _last(model, 0) == ["go", "attempt 1, told 0"]
    assert _last(model, 1) == ["go", "attempt 2, told 1"]
