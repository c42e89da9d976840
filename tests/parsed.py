"""The modules of the package as syntax trees, for tests that look at its text: a process parses each file once."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import agentrail

PACKAGE: Final = Path(agentrail.__file__).parent


def module_of(path: Path) -> str:
    """Return the dotted name of the module at *path*, `agentrail` included."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def package_trees() -> Mapping[str, ast.Module]:
    """Return the trees by the names of their modules; a process that only collects the tests parses nothing."""
    return {module_of(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
