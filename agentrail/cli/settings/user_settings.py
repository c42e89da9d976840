"""`UserSettings`: what a person has set for all folders, in the folder of the user, which no agent sees."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Final

from agentrail.adapters.user_folders import SETTINGS, home
from agentrail.cli.folder.settings_file import MAX_SIZE
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.own_files import open_own
from agentrail.errors.agentrail_error import advice
from agentrail.values.value import Value

STATUS_LINE: Final = "status_line"
"""The key of the command that prints a row of one's own below the typed text."""


class UserSettings(Value):
    """The settings of the user."""

    status_line: str = ""
    """The command line whose first row is shown below the typed text; empty for none."""


def user_settings_file() -> Path:
    """Return the path of the file, which need not be there."""
    return home() / SETTINGS


def read_user_settings() -> UserSettings:
    """Return the settings of the user; raise `BadInputError` if the file is not of this user alone, or not valid."""
    file = user_settings_file()
    try:
        with os.fdopen(open_own(file, os.O_RDONLY), "rb") as opened:
            content = opened.read(MAX_SIZE)
    except FileNotFoundError:
        return UserSettings()
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}") from None
    try:
        values: dict[str, object] = tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{file} is no TOML: {error}") from None
    for key in values:
        if key != STATUS_LINE:
            raise BadInputError(f"{file}: there is no key `{key}`; {advice(key, (STATUS_LINE,), 'there is')}")
    command = values.get(STATUS_LINE, "")
    if not isinstance(command, str):
        raise BadInputError(f'{file}: `{STATUS_LINE}` is no text, such as {STATUS_LINE} = "date +%H:%M"')
    return UserSettings(command.strip())
