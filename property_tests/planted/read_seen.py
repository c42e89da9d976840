"""What a reader has broken of what the model sees and says: screens, tools on demand, answers in a form."""

from __future__ import annotations

from typing import Final

from agentrail.core import tools_on_demand
from agentrail.core.machine import deferred_tools, prompts
from agentrail.runtime.actor import screened_inputs
from agentrail.runtime.work.screening import HeldText
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "thoughts_not_screened",
        "thoughts are written as they come",
        screened_inputs._screened,
        "screened_text = screen(text)",
        "screened_text = text",
        "safety",
    ),
    Change(
        "keys_not_screened",
        "the keys of arguments and results are written as they come",
        screened_inputs._text,
        "screen(key)",
        "key",
        "safety",
    ),
    Change(
        "files_not_screened",
        "the names of files are written as they come",
        screened_inputs._file,
        "name=screen(file.name)",
        "name=file.name",
        "safety",
    ),
    Change(
        "rest_of_a_response_not_screened",
        "what is held of a response when it ends is told as it came",
        HeldText.end,
        "self._screen(text)",
        "text",
        "safety",
    ),
    Change(
        "deferred_tools_declared",
        "a request declares the deferred tools too",
        tools_on_demand.declared,
        "*(tool for tool in tools if not tool.deferred)",
        "*tools",
        "world",
    ),
    Change(
        "found_tools_not_told_again",
        "after a compaction the model does not have the definitions of what it has found",
        deferred_tools.tell_again,
        "if found_specs:",
        "if not found_specs:",
        "world",
    ),
    Change(
        "queued_prompt_without_its_form",
        "a prompt that waits in the queue forgets the form of its answer",
        prompts.accept,
        'Prompt(draft.make_id("p"), parts, returns, asked_by)',
        'Prompt(draft.make_id("p"), parts, EMPTY if state.turn else returns, asked_by)',
        "world",
    ),
)
