"""Each attribute of a public type that a page names in its text is there, such as `session.inspect().history`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from agentrail.errors import AgentrailError
from agentrail.events import Envelope
from tests.docs.pages import PAGES
from tests.docs.sources import ROOT

MODULES: Final = (
    "agentrail",
    *(f"agentrail.{name}" for name in ("aio", "errors", "events", "host", "insight", "journals", "mcp", "models")),
    *(f"agentrail.{name}" for name in ("plugins", "sandboxes", "sync", "telemetry", "testing", "tools")),
)
"""Modules of which a program imports."""

_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_CHAIN: Final = re.compile(r"(?<![\w.\"'/=-])([A-Za-z]\w*(?:\([^()]*\))?)((?:\.[A-Za-z_]\w*(?:\([^()]*\))?)+)")


def _public() -> dict[str, list[type]]:
    """Return the classes that a program can import, by name; several modules may have one of a name."""
    found: dict[str, list[type]] = {}
    for module in map(import_module, MODULES):
        for name in dir(module):
            value: object = None if name.startswith("_") else getattr(module, name)
            if isinstance(value, type) and value not in found.get(name, []):
                found.setdefault(name, []).append(value)
    return found


CLASSES: Final = _public()
SESSIONS: Final = ("SessionHandle", "RemoteSession")
SUPERVISORS: Final = ("Supervisor", "RootSupervisor", "RemoteSupervisor")
NAMES: Final = {
    "session": SESSIONS,
    "handle": SESSIONS,
    "supervisor": SUPERVISORS,
    "ctx": ("Context", "ToolContext"),
    "reply": ("Reply",),
    "status": ("Status",),
    "state": ("State",),
    "spec": ("SessionSpec",),
    "envelope": ("Envelope",),
    "usage": ("Usage",),
    "trace": ("ActorTrace", "Trace"),
}
"""What pages call values of public types."""


def _classes_in(annotation: object) -> list[type]:
    """Return the classes that a value with *annotation* may be of; none if it is no class of ours, or `… | None`."""
    names = str(annotation).removesuffix(" | None").split(" | ")
    return [found for name in names for found in CLASSES.get(name, [])]


@cache
def _annotations(owner: type) -> dict[str, object]:
    """Return the annotations of *owner* and its bases, as their modules have them: as text."""
    return {name: each for base in owner.__mro__[::-1] for name, each in inspect.get_annotations(base).items()}


@cache
def _source(owner: type) -> str:
    """Return the code of *owner* and of its bases in this package."""
    return "".join(map(inspect.getsource, [base for base in owner.__mro__ if base.__module__.startswith("agentrail")]))


def _has(owner: type, name: str) -> bool:
    """Whether values of *owner* have an attribute of that name, which its `__init__` may set."""
    return (
        hasattr(owner, name)
        or name in _annotations(owner)
        or re.search(rf"self\.{name}\b.* = ", _source(owner)) is not None
    )


def _of(owner: type, name: str) -> list[type]:
    """Return the classes of an attribute, or of what a method returns."""
    value: object = inspect.getattr_static(owner, name, None)
    function = value.fget if isinstance(value, property) else value
    if inspect.isfunction(function):
        return _classes_in(function.__annotations__.get("return"))
    return _classes_in(_annotations(owner).get(name))


def _roots(name: str, *, called: bool) -> list[type]:
    """Return the classes of the value that a page calls so; *called*: by a method of a session or supervisor."""
    if not called:
        return [found for each in NAMES.get(name, (name,)) for found in CLASSES.get(each, [])]
    owners = [found for each in (*SESSIONS, *SUPERVISORS) for found in CLASSES[each] if hasattr(found, name)]
    return [found for owner in owners for found in _of(owner, name)] or CLASSES.get(name, [])


def missing(chain: str) -> str | None:
    """Return the first attribute of `a.b().c` that no value of its type has; `None` if there is none, or no type."""
    root, *names = re.sub(r"\([^()]*\)", "()", chain).split(".")
    owners = _roots(root.removesuffix("()"), called=root.endswith("()"))
    for name in (each.removesuffix("()") for each in names):
        if not owners:
            return None
        having = [owner for owner in owners if _has(owner, name)]
        if not having:
            return name
        owners = [found for owner in having for found in _of(owner, name)]
    return None


def _chains(text: str) -> Iterator[tuple[int, str]]:
    """Yield the chains of attributes in the code spans of a page, with their lines; blocks of code are run instead."""
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_block = not in_block
        elif not in_block:
            for span in _SPAN.finditer(line):
                for chain in _CHAIN.finditer(span[1]):
                    yield number, chain[0]


def problems_of(pages: Iterable[Path]) -> list[str]:
    return [
        f"{page.relative_to(ROOT)}:{number}: `{chain}`: there is no `{name}`"
        for page in pages
        for number, chain in _chains(page.read_text(encoding="utf-8"))
        if (name := missing(chain)) is not None
    ]


@pytest.mark.long
def test_each_attribute_that_a_page_names_is_there() -> None:
    assert problems_of(PAGES) == []


@pytest.mark.parametrize(
    ("chain", "name"),
    [
        ("session.inspect().in_doubt", "in_doubt"),
        ("session.inspect().in_doubt_calls", None),
        ("inspect().in_doubt", "in_doubt"),
        ("session.nothing(id)", "nothing"),
        ("status().quarantined", None),
        ("Envelope.nothing", "nothing"),
        ("reply.usage.nothing", "nothing"),
        ("trio.nothing", None),
    ],
)
def test_an_attribute_that_is_not_there_is_found(chain: str, name: str | None) -> None:
    assert missing(chain) == name


def test_the_types_are_known() -> None:
    assert {name for names in NAMES.values() for name in names} <= set(CLASSES)
    assert AgentrailError in CLASSES["AgentrailError"]
    assert Envelope in CLASSES["Envelope"]
