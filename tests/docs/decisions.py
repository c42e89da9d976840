"""The entries of the page of decisions, and the index of them by area."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from tests.docs.sources import ROOT

PAGE: Final = ROOT / "docs" / "design.md"

AREAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "turns": "Turns, prompts and aborts",
        "people": "Approvals, questions and steering",
        "tools": "Tools and their calls, MCP servers",
        "plugins": "Plugins and guards",
        "agents": "Sub-agents",
        "models": "Models, providers and costs",
        "events": "Events and subscribers",
        "journal": "Journals",
        "recovery": "Coming back, forks and sleep",
        "supervision": "Supervisors and ends",
        "speed": "Speed, memory and the watchdog",
        "terminal": "The command and the terminal",
        "host": "The host",
        "tests": "The kit for tests, and our own tests",
        "code": "The code and its docs",
    }
)
"""What each area is called in the index, by its name in the comment below a heading."""

_HEADING: Final = re.compile(r"### (?P<heading>\d{4}-\d\d-\d\d: (?P<title>.+))")
_AREA: Final = re.compile(r"<!-- area: (\w+) -->")
_REPLACED: Final = re.compile(r"\(Replaced (?P<part>in part )?by “(?P<title>[^”]+)”\.\)")


@frozen
class Decision:
    """One entry of the page."""

    heading: str
    title: str
    area: str
    replaced_by: str | None
    """Title of the entry that replaces it, whole or in part; `None` if none does."""
    in_part: bool

    @property
    def line(self) -> str:
        """The entry in the index."""
        anchor = re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")
        mark = "" if self.replaced_by is None else f" (replaced{' in part' if self.in_part else ''})"
        return f"- [{self.title}](#{anchor}){mark}"


def decisions() -> Iterator[Decision]:
    """Yield the entries of the page, in their order."""
    _, *entries = re.split(r"(?m)^(?=### )", PAGE.read_text(encoding="utf-8"))
    for entry in entries:
        first, _, body = entry.partition("\n")
        found = _HEADING.fullmatch(first)
        assert found, f"{first}: the heading of a decision is `### date: title`"
        area, replaced = _AREA.match(body), _REPLACED.search(body)
        named = area[1] if area else ""
        assert named in AREAS, f"{first}: below it goes `<!-- area: … -->`, with one of {', '.join(AREAS)}"
        yield Decision(
            found["heading"],
            found["title"],
            named,
            replaced["title"] if replaced else None,
            in_part=bool(replaced and replaced["part"]),
        )


def index() -> list[str]:
    """Return the index: the areas, each with its entries."""
    every = list(decisions())
    lines: list[str] = []
    for area, name in AREAS.items():
        if rows := [one.line for one in every if one.area == area]:
            lines += [*([""] if lines else []), f"**{name}**", "", *rows]
    return lines
