"""The texts of agentrail's own modules, for whatever prints or checks the docs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from docs.printing.source_text import Source
from tests.parsed import module_of, texts_below

ROOT: Final = Path(__file__).parents[2]


def read() -> Source:
    """Read all modules of the package."""
    return Source({module_of(ROOT / path): text for path, text in texts_below("agentrail").items()})


SOURCE: Final = read()


def layers(package: str) -> list[str]:
    """Return the modules and folders of *package* in the order of its contract: an import may only point down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract.get("containers") == [package])
    return [name for row in rows for name in row.split(" | ")]


def printed(lines: Iterable[str]) -> str:
    """Return *lines* as they stand on a page between two comments."""
    return "\n".join(["", *lines, ""])
