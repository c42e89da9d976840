"""Which value of a setting counts: of an option, else of the environment, else of the folder's file, else a default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentrail.app.named_sandbox import sandbox_problem
from agentrail.cli.journal_file import file_named
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.default_agent import MODES, Mode, mode_named, usual_model
from agentrail.cli.settings.project_settings import ProjectSettings
from agentrail.errors.agentrail_error import advice
from agentrail.values.value import Value

VARIABLES: Final[Mapping[str, str]] = {
    "model": "AGENTRAIL_MODEL",
    "mode": "AGENTRAIL_MODE",
    "journal": "AGENTRAIL_JOURNAL",
    "sandbox": "AGENTRAIL_SANDBOX",
}
"""Environment variables by what they set."""


class Setting(Value, gc=True):
    """A value, and where it comes from."""

    value: str
    """The value, as text; empty if it is a default that depends on others."""
    source: str
    """Where it comes from, in words."""


def setting(key: str, option: str | None, settings: ProjectSettings | None, default: str = "") -> Setting:
    """Return the value of the setting *key* that has precedence; *option* is that of the command line, or `None`."""
    if option is not None:
        return Setting(option, f"--{key}")
    variable = VARIABLES[key]
    if text := os.environ.get(variable, "").strip():
        return Setting(text, variable)
    if settings is not None:
        in_file = {
            "model": settings.model,
            "mode": settings.mode,
            "journal": settings.journal,
            "sandbox": settings.sandbox,
        }[key]
        if in_file:
            return Setting(str(in_file), str(settings.path))
    return Setting(default, "default")


def chosen_model(option: str | None, settings: ProjectSettings | None) -> str:
    """Return the model for the default agent."""
    return setting("model", option, settings, usual_model(os.environ.get)).value


def chosen_mode(option: Mode | None, settings: ProjectSettings | None) -> Mode | None:
    """Return the mode that says what may run without asking; `None` if it is not set.

    Raise `BadInputError` if unknown.
    """
    name = setting("mode", option, settings).value
    mode = mode_named(name)
    if name and mode is None:
        raise BadInputError(f"{VARIABLES['mode']}: there is no mode `{name}`; {advice(name, MODES, 'there are')}")
    return mode


def chosen_sandbox(option: str | None, settings: ProjectSettings | None) -> str:
    """Return engine and image of the container in which commands run; empty if none is named.

    Raise `BadInputError` if the environment names none.
    """
    name = setting("sandbox", option, settings).value
    if name and (problem := sandbox_problem(name)):
        raise BadInputError(f"{VARIABLES['sandbox']}: {problem}")
    return name


def chosen_page(settings: ProjectSettings | None, *, option: bool) -> bool:
    """Return whether browsers of this machine can open the page."""
    return option and (settings is None or settings.has_page)


def chosen_journal(option: Path | None, settings: ProjectSettings | None) -> Path | None:
    """Return the file of the journal; `None` for the user's default one."""
    path = setting("journal", None if option is None else str(option), settings).value
    return file_named(path) if path else None
