"""Bugs in what the model sees and says, that an author of the tests has invented."""

from __future__ import annotations

from agentrail.core.machine import deferred_tools, prompts, responses
from agentrail.runtime.actor import screened_inputs
from agentrail.runtime.work import model_stream
from agentrail.runtime.work.running_compaction import RunningCompaction
from property_tests.planted import Bed, Planting

# ruff: noqa: SLF001 - private parts are what is broken here

BED = Bed()


@BED.bug("what a service answers to a plugin is written as it came")
def answers_of_services_not_screened(plant: Planting) -> None:
    old, new = "changed = _value(input_, ", "changed = input_ if hasattr(input_, 'ask_id') else _value(input_, "
    plant.rewrite(screened_inputs.screen_arrival, old, new)


@BED.bug("what a summary says of the conversation is written as the model gave it")
def summary_not_screened(plant: Planting) -> None:
    old = "[message if id(message) in known_ids else _value(message, screens.text) for message in input_.messages]"
    plant.rewrite(screened_inputs.screen_arrival, old, "input_.messages if known_ids else input_.messages")


@BED.bug("the log quotes what a model has raised")
def words_of_models_logged(plant: Planting) -> None:
    plant.rewrite(model_stream.Stream.raised, "words=self._screens is None", "words=True")


@BED.bug("the log quotes what a compactor has raised")
def words_of_compactors_logged(plant: Planting) -> None:
    plant.rewrite(RunningCompaction._summary, "words=self._words", "words=True")


@BED.bug("an answer that does not fit is taken", "world")
def unfit_answer_taken(plant: Planting) -> None:
    plant.rewrite(responses._takes_answer, "if problem is None:", "if problem is None or turn.misfits:")


@BED.bug("the tools that were found last push out those before", "world")
def found_tools_forgotten(plant: Planting) -> None:
    plant.rewrite(deferred_tools.note_found, "[-MAX_FOUND:]", "[-1:]")


@BED.bug("files of a prompt are left out when it starts a turn", "world")
def files_of_a_prompt_lost(plant: Planting) -> None:
    plant.rewrite(
        prompts._say_prompt,
        "_user_message(prompt.parts)",
        "_user_message(prompt.parts[:1])",
    )
