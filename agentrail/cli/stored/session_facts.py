"""`facts_of`: what a person has to know of a stored session before it comes back, which somebody else may have forged.

Its agent is made anew from its name. All else is as its records say: where its prompts go, what its model is told,
what runs without asking, and what it would do at once. A test walks the fields of a state, so that each new one is
told or decided not to be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from agentrail.cli.agents.agent_source import LIMITS, NO_CONFIG, AgentSource
from agentrail.cli.command_options import MODES_ABOUT
from agentrail.cli.settings.default_agent import MODES, OPTIONS, PLANNING, SYSTEM, mode_named
from agentrail.cli.stored.steps_without_code import rests
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import Setup, State
from agentrail.values.json import JsonObject, canonical, freeze
from agentrail.values.shell_details import ROOT
from agentrail.values.tools import ActingAgent, HandOver

SYSTEMS: Final = frozenset({"", SYSTEM, f"{SYSTEM}\n\n{PLANNING}"})
"""What the agent of the command line is told beside the files of its folder."""


def facts_of(state: State, source: AgentSource) -> Iterator[tuple[str, str]]:
    """Yield what a person has to know of a stored session before it comes back: pairs of name and text."""
    yield "title", state.title
    yield "folder", source.folder
    if os.path.normpath(state.setup.working_dir) != os.path.normpath(source.folder):
        yield "works in", state.setup.working_dir
    yield "agent", f"{source.file} {source.name}, whose code is run" if source.file else "that of the command line"
    if not source.file:
        mode = mode_named(source.mode) or MODES[0]
        yield "mode", f"{mode}: {MODES_ABOUT[mode]}"
        yield "settings", "those of the folder do not count" if source.config == NO_CONFIG else "those of the folder"
    for limit in LIMITS:
        text: str = getattr(source, limit)
        if text:
            yield limit, text
    for facts in _facts_of_records(state, source):
        yield from facts


def facts_of_subagent(state: State, source: AgentSource) -> Iterator[tuple[str, str]]:
    """Yield what a person has to know of a sub-agent that comes back with a session, whose agent is *source*."""
    name = f"sub-agent {state.session_id}"
    yield name, "it has not ended, and comes back when the session does, or makes the call that began it"
    if os.path.normpath(state.setup.working_dir) != os.path.normpath(source.folder):
        yield f"{name}: works in", state.setup.working_dir
    for facts in _facts_of_records(state, source):
        for key, text in facts:
            yield f"{name}: {key}", text


def _facts_of_records(state: State, source: AgentSource) -> Iterator[Iterator[tuple[str, str]]]:
    yield _models_of(state, source)
    yield _words_for_the_model(state)
    yield _changed_facts(state)
    yield _shell_of(state)
    yield _work_of(state)


def _models_of(state: State, source: AgentSource) -> Iterator[tuple[str, str]]:
    """Yield to whom prompts are sent, in so far as the name of the agent does not say it; options may name a host."""
    if state.model != source.model:
        yield "model now", state.model
    yield from _model_facts("model options", "", state.model_options, state.fallbacks)
    turn = state.turn
    if turn is not None and (turn.model, turn.options, turn.spares) != (
        state.model,
        state.model_options,
        state.fallbacks,
    ):
        yield from _model_facts("model of the turn", turn.model, turn.options, turn.spares)
    for handoff in _handoffs_to_come(state):
        for model, options in handoff.models:
            yield from _model_facts("model of the next agent", model, options, ())


def _model_facts(name: str, model: str, options: JsonObject, fallbacks: tuple[Spare, ...]) -> Iterator[tuple[str, str]]:
    text = f"{model} {canonical(options) if options else ''}".strip()
    if text:
        yield name, text
    for fallback in fallbacks:
        yield "falls back to", f"{fallback.model} {canonical(fallback.options)}"


def _words_for_the_model(state: State) -> Iterator[tuple[str, str]]:
    """Yield what the model is told beside the conversation, which no file of the folder says."""
    setup = state.setup
    agents: tuple[Setup | ActingAgent, ...] = (setup, *_handed_to(state))
    for words in agents:
        if isinstance(words, ActingAgent):
            yield "handed over to", words.name
        if words.system not in SYSTEMS:
            yield "system", words.system
    if setup.prompt_mode != Setup().prompt_mode:
        yield "prompt_mode", setup.prompt_mode
    for section in state.sections:
        if section.by:  # the others are those of files, which are read again
            yield f"section {section.key}", section.text or ""
    for notice in state.notices:
        yield "notice", notice


def _handed_to(state: State) -> Iterator[ActingAgent]:
    """Yield the agents whose words hold in place of the first ones, or will when the calls have results."""
    if state.agent is not None:
        yield state.agent
    for handoff in _handoffs_to_come(state):
        yield handoff.agent


def _handoffs_to_come(state: State) -> Iterator[HandOver]:
    for call in () if state.batch is None else state.batch.calls:
        if call.handoff is not None:
            yield call.handoff


def _changed_facts(state: State) -> Iterator[tuple[str, str]]:
    """Yield in what the session differs from a new one, and what changes when no turn is open."""
    for name in OPTIONS.__struct_fields__:
        value: object = getattr(state.setup.options, name)
        if value != getattr(OPTIONS, name):
            yield name, canonical(freeze(value))
    if state.setup.user_data:
        yield "user_data", canonical(state.setup.user_data)
    for plugin in state.plugins:
        for option in plugin.changed:
            yield "changed", f"{plugin.key}: {option} = {canonical(plugin.options.get(option))}"
    for key in state.removed_plugins:
        yield "taken away", key
    for change in state.plugin_changes:
        yield "waits to change", f"{change.kind} {change.key} {canonical(change.options)}"
    for tool, family in sorted(state.approved_always):
        yield "always allowed", f"{tool} {family}"


def _shell_of(state: State) -> Iterator[tuple[str, str]]:
    """Yield with what commands begin. Of the variables, those that change which programs run are not used."""
    if state.shell_folder != ROOT:
        yield "commands begin in", state.shell_folder
    for name, value in state.shell_exports.items():
        yield "commands begin with", f"{name}={value if isinstance(value, str) else canonical(value)}"


def _work_of(state: State) -> Iterator[tuple[str, str]]:
    """Yield what the session would do at once."""
    if not rests(state):
        yield "under way", "a turn, or what waits for one: it goes on at once"
    for call in () if state.batch is None else state.batch.calls:
        if not call.done:
            yield "call", f"{call.name} {canonical(call.args)}"
