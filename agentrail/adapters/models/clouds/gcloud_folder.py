"""The folder of Google's program `gcloud`: its credentials, and the project that it works on. The program is not run.

google-auth runs it to learn the project. The files say the same, and are there also where the program is not.
"""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentrail.adapters.user_folders import with_home

if TYPE_CHECKING:
    from agentrail.adapters.models.clouds.cloud import Environment

FOLDER: Final = "CLOUDSDK_CONFIG"
"""The environment variable that names the folder."""

PROJECT: Final = "CLOUDSDK_CORE_PROJECT"
"""The environment variable with a project that counts before that of a configuration."""

ACTIVE: Final = "CLOUDSDK_ACTIVE_CONFIG_NAME"
"""The environment variable with the name of a configuration that counts before the active one."""

NAME: Final = re.compile(r"[a-z][-a-z0-9]*")
"""Names of configurations."""

NONE: Final = "NONE"
"""Stands in the file for no configuration."""

DEFAULT: Final = "default"
"""The configuration that is active until another one is."""

MAX_BYTES: Final = 65_536
"""The most bytes that a file of `gcloud` may have: they have some thousand."""


def gcloud_file(environment: Environment) -> Path:
    """Return the file in which `gcloud auth application-default login` keeps credentials, as google-auth finds it."""
    return _folder(environment) / "application_default_credentials.json"


def gcloud_project(environment: Environment) -> str:
    """Return the project that `gcloud config set project` has set; empty if it has not, or the files are odd."""
    if project := environment(PROJECT):
        return project
    folder = _folder(environment)
    name = environment(ACTIVE) or _active(folder)
    if not NAME.fullmatch(name):
        return ""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_file(folder / "configurations" / f"config_{name}").decode())
        return parser.get("core", "project", fallback="")
    except (OSError, ValueError, configparser.Error):
        return ""


def read_file(path: Path) -> bytes:
    """Return what *path* has; raise `ValueError` if that is more than `MAX_BYTES`. A pipe is not waited for."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(number, "rb") as file:
        content = file.read(MAX_BYTES + 1) or b""  # `None` if a pipe has nothing yet
    if len(content) > MAX_BYTES:
        problem = f"it has more than {MAX_BYTES:,} bytes"
        raise ValueError(problem)
    return content


def _folder(environment: Environment) -> Path:
    usual = Path(environment("APPDATA") or "", "gcloud") if os.name == "nt" else Path(with_home("~/.config/gcloud"))
    return Path(environment(FOLDER) or usual)


def _active(folder: Path) -> str:
    """Return the name of the active configuration; an odd one counts as none, as `gcloud` removes it."""
    try:
        name = read_file(folder / "active_config").decode().strip()
    except (OSError, ValueError):
        return DEFAULT
    return name if name == NONE or NAME.fullmatch(name) else DEFAULT
