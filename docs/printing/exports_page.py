"""The page of the public names of a package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from docs.printing.fields_page import item, summary
from docs.printing.markdown import code, codes
from docs.printing.source_text import Source

REFERENCE: Final = Path(__file__).parents[1] / "reference"
PAGES: Final = {
    "handle.md": "Supervisor and handle",
    "options.md": "Options",
    "hooks.md": "Hooks and actions",
    "contracts.md": "Contracts",
    "host.md": "The host",
    "../plugins/index.md": "Plugins that ship",
}
"""The pages that describe some of the names, by their paths below the reference, with their titles."""

CHOICES: Final = frozenset({Literal, Union, UnionType})
"""The kinds of types whose arguments are the alternatives."""


def names(source: Source, package: ModuleType, *others: ModuleType) -> list[str]:
    """Return the public names of *package*, each with what it is.

    Those that *others* have too stand in one line, and so do those that another page of the reference describes.
    """
    offered = sorted(cast("list[str]", package.__all__))
    lines: list[str] = []
    for other in others:
        lines += _one_line(f"As in {code(other.__name__)}", offered, {n for n in offered if _is_in(other, package, n)})
    for path, title in PAGES.items():
        lines += _one_line(f"On [{title}]({path})", offered, _described_on(path))
    return [
        *lines,
        *([""] if lines and offered else []),
        *(item(name, _about(source, name, getattr(package, name))) for name in offered),
    ]


def _one_line(where: str, offered: list[str], there: set[str]) -> list[str]:
    """Return the line about the names that are *there*, and take them out of those that are *offered*."""
    names = [name for name in offered if name in there]
    offered[:] = [name for name in offered if name not in there]
    return [f"- {where}: {codes(names)}."] if names else []


@cache
def _described_on(path: str) -> set[str]:
    """Return the names that the page *path* of the reference describes: in headings, and at the begin of lines."""
    text = (REFERENCE / path).read_text(encoding="utf-8")
    return set(re.findall(r"^(?:#+ (?:`\w+`: )?|- |\| \[?)`([A-Z]\w+)(?:\(.*?\))?`", text, re.MULTILINE))


def _is_in(other: ModuleType, package: ModuleType, name: str) -> bool:
    """Whether *other* offers what *package* has under *name*."""
    return name in cast("list[str]", other.__all__) and getattr(other, name) is getattr(package, name)


def _about(source: Source, name: str, found: object) -> str:
    """Return the text about *found*: its docstring, or the text under the constant, or the members of the union."""
    if isinstance(found, type | FunctionType) or hasattr(found, "__wrapped__"):
        return summary(found.__doc__)
    members = [getattr(one, "__name__", str(one)) for one in get_args(found)] if get_origin(found) in CHOICES else []
    return summary(source.constant(name)) or (f"Any of {codes(sorted(members))}." if members else "")
