"""Checks what is handed to `open_supervisor`, where it is called: journal, models, secrets, specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from agentrail.errors import WrongType
from agentrail.hooks.contract import ASYNC, indirect
from agentrail.ports.implementing import why_unfit, why_unfit_call
from agentrail.ports.journal import Journal
from agentrail.values.foreign import named

JOURNAL_WANTED: Final = "an object with the methods of `agentrail.journals.Journal`, such as `SqliteJournal(path)`"
MODELS_WANTED: Final = "a plain function, or a class, that takes the text after the colon and returns a `Model`"
SECRETS_WANTED: Final = "a plain function of the name of a secret, which returns it or None"
SERVICE_WANTED: Final = "an `async def` without arguments, or with `*, task_status` alone"
SPECS_WANTED: Final = "a plain function without arguments that returns a `SessionSpec`"


def check_journal(found: object) -> None:
    """Raise `WrongType` if *found* is neither a journal nor `None`."""
    problem = None if found is None else why_unfit(found, Journal)
    if problem is not None:
        raise WrongType("journal", problem, JOURNAL_WANTED)


def check_secrets(found: object) -> None:
    """Raise `WrongType` if *found* is neither a plain function nor `None`."""
    if found is not None and not _is_plain(found):
        raise WrongType("secrets", _described(found), SECRETS_WANTED)


def check_models(found: object) -> None:
    """Raise `WrongType` if *found* is neither `None` nor a mapping from parts of names to factories of models."""
    _check_functions("models", found, MODELS_WANTED)
    for name in cast("Mapping[str, object]", found or {}):
        if ":" in name:
            raise WrongType("models", f"the name {name!r}", "the part of the models' names before the colon")


def check_specs(found: object) -> None:
    """Raise `WrongType` if *found* is neither `None` nor a mapping from names to builders of specifications."""
    _check_functions("specs", found, SPECS_WANTED)


def check_service(found: object) -> None:
    """Raise `WrongType` if *found* is no async function that can be run without arguments, or with `task_status`."""
    if why_unfit_call(found, _bare) is not None and why_unfit_call(found, _with_status) is not None:
        takes_others = callable(found) and indirect(found) == ASYNC
        raise WrongType(
            "service", "a function that needs arguments" if takes_others else _described(found), SERVICE_WANTED
        )


async def _bare() -> None:
    """Stand for a service that is ready at once."""


async def _with_status(*, task_status: object) -> None:
    """Stand for a service that says when it is ready."""


def _check_functions(argument: str, found: object, wanted: str) -> None:
    if found is None:
        return
    if not isinstance(found, Mapping):
        raise WrongType.of(argument, found, f"a mapping: for each name {wanted}")
    for name, one in cast("Mapping[object, object]", found).items():
        if not isinstance(name, str):
            raise WrongType(argument, f"the name {name!r}", "a text as the name")
        if not _is_plain(one):
            raise WrongType(argument, f"{_described(one)} under {name!r}", wanted)


def _is_plain(found: object) -> bool:
    return callable(found) and not indirect(found)


def _described(found: object) -> str:
    kind = indirect(found) if callable(found) else ""
    return f"a function that is {kind}" if kind else f"a `{named(found)}`"
