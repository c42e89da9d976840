"""Layers of a system prompt, which of them each `prompt_mode` sends, and the texts of a session's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from agentrail.core.vocabulary.state import AttachedTool, Setup
from agentrail.hooks.ruling import DYNAMIC, ENVIRONMENT, MEMORY, SKILLS, Section
from agentrail.values.json import EMPTY, JsonObject, freeze_object

TOOL_NAMES: Final = "tool_names"
"""Layer with the names of the tools, which `minimal` sends."""

LAYERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TOOL_NAMES: "the names of the tools in one line",
        "user": "`SessionSpec.system`: what this agent is for",
        ENVIRONMENT: "working folder, platform, date of the beginning; `environment=False` leaves it out",
        SKILLS: "the list of `SessionSpec.skills`, and what plugins say that the agent can look up",
        MEMORY: "the texts of `SessionSpec.memory`, and of memory files that plugins have read",
        DYNAMIC: "all other sections that plugins set: plans, lists, advice for this moment",
    }
)
"""Each layer with its content. Earlier layers change less often, so a provider's prompt cache keeps fitting them.

The dynamic sections follow the messages, because they may change with each request.
"""

MODES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "full": ("user", ENVIRONMENT, SKILLS, MEMORY, DYNAMIC),
        "task": ("user", ENVIRONMENT, DYNAMIC),
        "minimal": (TOOL_NAMES, "user"),
        "none": ("user",),
    }
)
"""For each `prompt_mode`, the layers that are sent."""

LASTING: Final = (ENVIRONMENT, SKILLS, MEMORY)
"""Layers of sections that are sent before the messages, in this order."""

DATE: Final = "date"
"""Key of the dynamic section that tells the date, if it is no longer that of the session's beginning."""

_DAY_MS: Final = 86_400_000

Pairs = tuple[tuple[str, str], ...]
NO_PAIRS: Final[Pairs] = ()


def fixed_text(setup: Setup, tools: Mapping[str, AttachedTool]) -> str:
    """Return the text of the layers that never change in a session: the names of the tools, and the user layer."""
    if setup.prompt_mode == "full":
        return setup.system
    return "\n\n".join([text for _, text in fixed_layers(setup, tools)])


def fixed_layers(setup: Setup, tools: Mapping[str, AttachedTool]) -> Pairs:
    """Return the layers that never change in a session, each with its name; one without a text is left out."""
    names = [name for name, attached in tools.items() if not attached.spec.deferred]
    has_names = names and TOOL_NAMES in MODES[setup.prompt_mode]
    tool_names = f"Your tools: {', '.join(names)}." if has_names else ""
    return tuple([(layer, text) for layer, text in ((TOOL_NAMES, tool_names), ("user", setup.system)) if text.strip()])


def split(sections: Sequence[Section], mode: str) -> tuple[Pairs, Pairs]:
    """Return the *sections* that *mode* sends: those before the messages, ordered by layer, and the dynamic ones."""
    if not sections:
        return NO_PAIRS, NO_PAIRS
    dynamic = [section for section in sections if section.layer == DYNAMIC] if DYNAMIC in MODES[mode] else []
    return pairs_of(lasting(sections, mode)), pairs_of(dynamic)


def lasting(sections: Sequence[Section], mode: str) -> Sequence[Section]:
    """Return those of *sections* that *mode* sends before the messages, in the order in which they are sent."""
    layers = MODES[mode]
    return [section for layer in LASTING if layer in layers for section in sections if section.layer == layer]


def count_memory(sections: Sequence[Section], mode: str) -> int:
    """Return how many sections at the end of `lasting` are memory files."""
    return sum(section.layer == MEMORY for section in sections) if MEMORY in MODES[mode] else 0


def pairs_of(sections: Sequence[Section]) -> Pairs:
    """Return *sections* as pairs of key and text."""
    return tuple([(section.key, section.text or "") for section in sections]) if sections else NO_PAIRS


def memory_of(sections: Sequence[Section]) -> JsonObject:
    """Return the texts of the sections of the layer `memory`, by key."""
    if not sections:
        return EMPTY
    memory = {section.key: section.text for section in sections if section.layer == MEMORY}
    return freeze_object(memory) if memory else EMPTY


@lru_cache(maxsize=64)
def environment_on(day: int, about: str) -> Section:
    """Return the section with *about*, the text on folder and machine, for a session that begins on *day*.

    *day* counts from 1970. Cached, because sessions that begin on one day in one folder share the section.
    """
    return Section(ENVIRONMENT, f"{about}\n{_began_on(day)}", ENVIRONMENT, ENVIRONMENT)


def environment_of(about: str, now_ms: int) -> Section:
    """Return the section of a session that begins at *now_ms*, in milliseconds since 1970."""
    return environment_on(now_ms // _DAY_MS, about)


def without_folder(text: str, mark: str) -> str:
    """Return the *text* of an environment section with *mark* in place of its first line, the folder."""
    folder, end, others = text.partition("\n")
    return f"{folder.partition(': ')[0]}: {mark}{end}{others}"


def dated(sections: Sequence[Section], now_ms: int) -> tuple[Section, ...]:
    """Return the section changes when a turn begins at *now_ms*: the date, if it differs from the session's first day.

    The result is empty if the sections have no environment. The date goes into a dynamic section, after the messages,
    so that the provider's cache still fits.
    """
    named = {section.key: section for section in sections}
    environment, last = named.get(ENVIRONMENT), named.get(DATE)
    if environment is None or environment.by != ENVIRONMENT or (last is not None and last.by != ENVIRONMENT):
        return ()
    day = now_ms // _DAY_MS
    if (environment.text or "").endswith(_began_on(day)):
        return () if last is None else (last.but(text=None),)
    return (Section(DATE, f"Today is {_date(day)} (UTC).", DYNAMIC, ENVIRONMENT),)


def _began_on(day: int) -> str:
    """Return the line with the date on which the conversation began."""
    return f"Date when this conversation began: {_date(day)} (UTC)"


def _date(day: int) -> str:
    """Return the date of *day*, counted from 1970, in the Gregorian calendar.

    It is computed here, without the system's calendar. Each year begins in March, so that a leap day is the last day of
    its year.
    """
    cycle, rest = divmod(day + 719_468, 146_097)  # 400 years, from March of the year 0
    year = (rest - rest // 1_460 + rest // 36_524 - rest // 146_096) // 365
    of_year = rest - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    return f"{400 * cycle + year + month // 10:04}-{(month + 2) % 12 + 1:02}-{date:02}"
