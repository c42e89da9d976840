"""The texts of agentrail's own modules, for whatever prints or checks the docs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import agentrail
from docs.printing.source_text import Source

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = Path(agentrail.__file__).parent


def _named(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read() -> Source:
    """Read all modules of the package."""
    return Source({_named(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))})


SOURCE: Final = read()


def printed(lines: Iterable[str]) -> str:
    """Return *lines* as they stand on a page between two comments."""
    return "\n".join(["", *lines, ""])
