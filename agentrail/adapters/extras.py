"""Extras: packages that only a part of agentrail needs, and the command that installs them."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

from agentrail.distribution import install_origin, install_words
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
        raise ExtraMissing(purpose, extra, install_command(extra))


def install_command(extra: str) -> str:
    """Return the shell command that installs *extra* beside this interpreter."""
    return f"{shlex.quote(sys.executable)} -m pip install {install_words(install_origin(), extra)}"
