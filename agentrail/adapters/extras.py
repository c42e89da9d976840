"""Extras: packages that only a part of agentrail needs, and the command that installs them."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from agentrail.errors import ExtraMissing


def need_extra(extra: str, package: str, purpose: str) -> None:
    """Raise `ExtraMissing` unless *package*, which the extra *extra* brings for *purpose*, is installed."""
    try:
        missing = find_spec(package) is None
    except (
        ValueError,
        ModuleNotFoundError,
    ):  # `None` in `sys.modules` keeps it from being imported; no package above it
        missing = True
    if missing:
        raise ExtraMissing(purpose, extra, install_command(extra, Path(__file__).parents[2]))


def install_command(extra: str, home: Path) -> str:
    """Return the shell command that installs *extra* beside this interpreter.

    *home* is the folder that holds the package. If it has a `pyproject.toml`, it is a clone, which is installed itself.
    """
    what = f"-e {shlex.quote(f'{home}[{extra}]')}" if (home / "pyproject.toml").is_file() else f"'agentrail[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install {what}"
