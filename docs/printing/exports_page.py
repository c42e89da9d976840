"""The page of the public names of a package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from docs.printing.fields_page import summary
from docs.printing.markdown import code, codes
from docs.printing.source_text import Source

REFERENCE: Final = Path(__file__).parents[1] / "reference"
PAGES: Final = {
    "handle.md": "Supervisor and handle",
    "options.md": "Options",
    "hooks.md": "Hooks and actions",
    "contracts.md": "Contracts",
    "host.md": "The host",
    "errors.md": "Errors",
    "../plugins/index.md": "Plugins that ship",
}
"""The pages that describe some of the names, by their paths below the reference, with their titles."""

GUIDES: Final = {
    "agentrail.evals": ("../guide/evals.md", "Evaluate an agent"),
    "agentrail.sandboxes": ("../guide/built-in-tools.md", "The built-in tools"),
    "agentrail.testing": ("../guide/testing.md", "Test agents and plugins"),
}
"""The guides with tables of names, by their packages: the path below the reference, and the title."""

CHOICES: Final = frozenset({Literal, Union, UnionType})
"""The kinds of types whose arguments are the alternatives."""


def names(source: Source, package: ModuleType, *others: ModuleType) -> list[str]:
    """Return the public names of *package*, each with what it is.

    Those that *others* have too stand in one line, and so do those that another page of the reference or a guide
    describes, and those of which the same is told there.
    """
    offered = sorted(cast("list[str]", package.__all__))
    lines: list[str] = []
    for other in others:
        lines += _one_line(f"As in {code(other.__name__)}", offered, {n for n in offered if _is_in(other, package, n)})
    for path, title in PAGES.items():
        lines += _one_line(f"On [{title}]({path})", offered, _described_on(path))
    if guide := GUIDES.get(package.__name__):
        path, title = guide
        lines += _one_line(f"In [{title}]({path})", offered, _in_tables_of(path))
    for other in others:
        alike = {name for name in offered if _is_told_alike(source, other, package, name)}
        lines += _one_line(f"Like those of {code(other.__name__)}", offered, alike)
    return [
        *lines,
        *([""] if lines and offered else []),
        *_described(source, package, offered),
    ]


def _described(source: Source, package: ModuleType, offered: list[str]) -> list[str]:
    """Return a line about each name that is *offered*; those with one sentence share a line."""
    names: dict[str, list[str]] = {}
    for name in offered:
        names.setdefault(_about(source, package, name), []).append(name)
    return [f"- {codes(alike)}: {about}" for about, alike in names.items()]


def _one_line(where: str, offered: list[str], there: set[str]) -> list[str]:
    """Return the line about the names that are *there*, and take them out of those that are *offered*."""
    names = [name for name in offered if name in there]
    offered[:] = [name for name in offered if name not in there]
    return [f"- {where}: {codes(names)}."] if names else []


@cache
def _described_on(path: str) -> set[str]:
    """Return the names that the page *path* of the reference describes: in headings, and at the begin of lines."""
    text = (REFERENCE / path).read_text(encoding="utf-8")
    return set(re.findall(r"^(?:#+ (?:`\w+`: )?|- \[?)`([A-Z]\w+)(?:\(.*?\))?`", text, re.MULTILINE))


@cache
def _in_tables_of(path: str) -> set[str]:
    """Return the names in the first cells of the tables of the guide *path*."""
    text = (REFERENCE / path).read_text(encoding="utf-8")
    cells = (line.split(" | ")[0] for line in text.splitlines() if line.startswith("| "))
    return {name for cell in cells for name in re.findall(r"`(\w+)[`(]", cell)}


def _is_in(other: ModuleType, package: ModuleType, name: str) -> bool:
    """Whether *other* offers what *package* has under *name*."""
    return name in cast("list[str]", other.__all__) and getattr(other, name) is getattr(package, name)


def _is_told_alike(source: Source, other: ModuleType, package: ModuleType, name: str) -> bool:
    """Whether *other* has something under *name* too, of which the same is told."""
    about = _about(source, package, name)
    return bool(about) and name in cast("list[str]", other.__all__) and _about(source, other, name) == about


def _home(package: ModuleType, name: str) -> str | None:
    """Return the module from which the stub of *package* has *name*; `None` if it has no stub."""
    stub = Path(f"{getattr(package, '__file__', '')}i")
    lines = stub.read_text(encoding="utf-8").splitlines() if stub.is_file() else []
    return next((words[1] for line in lines if (words := line.split())[:1] == ["from"] and words[3] == name), None)


def _about(source: Source, package: ModuleType, name: str) -> str:
    """Return the text about a name: its docstring, or the text under the constant, or the members of the union."""
    found: object = getattr(package, name)
    if isinstance(found, type | FunctionType) or hasattr(found, "__wrapped__"):
        return summary(found.__doc__)
    members = [getattr(one, "__name__", str(one)) for one in get_args(found)] if get_origin(found) in CHOICES else []
    return summary(source.constant(name, _home(package, name))) or (
        f"Any of {codes(sorted(members))}." if members else ""
    )
