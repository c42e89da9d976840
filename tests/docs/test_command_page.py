"""The page of the modules of the command has each of them, in its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.parsed import PACKAGE, ROOT

PAGE: Final = ROOT / "docs" / "design" / "command.md"
ROW: Final = re.compile(r"^(?:### `(?P<folder>[\w/]+)/`|\| `(?P<module>\w+)` \| \S.* \|)$", re.MULTILINE)


def _listed() -> Iterator[str]:
    """Yield the paths of the modules in the tables of the page, as they stand there."""
    folder = ""
    for match in ROW.finditer(PAGE.read_text(encoding="utf-8")):
        if match["folder"] is not None:
            folder = match["folder"]
        else:
            yield f"{folder}/{match['module']}.py"


def test_each_module_of_the_command_is_listed_once() -> None:
    modules = (path for path in (PACKAGE / "cli").rglob("*.py") if path.stem != "__init__")
    assert sorted(_listed()) == sorted(path.relative_to(PACKAGE).as_posix() for path in modules)


def test_few_modules_of_the_command_are_in_no_folder() -> None:
    """A module with a subject goes into its folder; there were a hundred here."""
    assert len([*(PACKAGE / "cli").glob("*.py")]) <= 12
