"""Facts in memory files: found in what a person says, and added as lines of a list in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, cast

from agentrail.plugins.guards.pii_patterns import SECRET_KINDS, patterns_of, taken_out
from agentrail.values.content import MAX_MEMORY
from agentrail.values.foreign import plain_text

MAX_FACT: Final = 300
"""The most characters of one fact; a longer one is left out."""

MAX_SPOKEN: Final = 20_000
"""The most characters of all texts in which facts are looked for; those at the end count."""

TITLE: Final = "# Memory\n\n"
"""Beginning of a memory file that is new."""

_SECRETS: Final = patterns_of({*SECRET_KINDS, "credit_card", "iban", "us_ssn"})
_NAMES_SECRET: Final = re.compile(
    r"\b(?:api[ _-]?keys?|card numbers?|credentials?|cvv|pass(?:codes?|phrases?|words?|wd)|pin(?: code)?"
    r"|private[ _-]?keys?|secrets?|tokens?)\b",
    re.IGNORECASE,
)
_MARKS: Final = " \t#>*+-"
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_ASKED: Final = re.compile(
    r"(?:please,? )?(?:remember|note|keep in mind|don'?t forget)(?: that|:|,)? (.+)", re.IGNORECASE
)
_OWN: Final = re.compile(
    r"(?:i am|i'm|i (?:always|hate|like|live|love|need|never|prefer|speak|use|want|work)"
    r"|we (?:always|are|have|never|prefer|use)|(?:my|our) [\w-]+(?: [\w-]+)? (?:are|is|uses)"
    r"|call me|always|never) .+",
    re.IGNORECASE,
)


def fact_of(found: object) -> str | None:
    """Return *found* as a fact on one line; `None` if it is no text, too short, too long, or tells a secret."""
    text = plain_text(found)
    if text is None:
        return None
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * MAX_FACT])
    line = " ".join(shown.split()).lstrip(_MARKS).strip()
    return line if 2 < len(line) <= MAX_FACT and not _tells_secret(line) else None  # noqa: PLR2004 - shorter is no fact


def _tells_secret(line: str) -> bool:
    """Whether *line* names a secret, or has something of the form of one: a memory file is part of later prompts."""
    return bool(_NAMES_SECRET.search(line)) or taken_out(line, _SECRETS, "") != line


def facts_among(found: object, most: int) -> tuple[str, ...]:
    """Return the first *most* facts of a list that a model has given; none if it is no list."""
    items = cast("Sequence[object]", found) if isinstance(found, (tuple, list)) else ()
    return tuple(dict.fromkeys(fact for item in items if (fact := fact_of(item)) is not None))[:most]


def spoken_facts(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the last *most* facts that a person tells in *texts*, by simple rules: `I prefer …`, `remember that …`."""
    facts: dict[str, str] = {}
    for sentence in _SENTENCE.split("\n".join(texts)[-MAX_SPOKEN:]):
        line = fact_of(sentence)
        if line is None or line.endswith("?"):
            continue
        asked = _ASKED.fullmatch(line)
        told = fact_of(asked[1]) if asked is not None else line if _OWN.fullmatch(line) else None
        if told is not None:
            facts.pop(_key(told), None)
            facts[_key(told)] = told
    return tuple(facts.values())[-most:] if most else ()


def with_facts(before: str | None, facts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the memory file *before* with those of *facts* that it lacks, and these; `None`: there is no file.

    The file does not get larger than `MAX_MEMORY` bytes, which is what the model gets of it.
    """
    text = TITLE if before is None or not before.strip() else before
    known = {_key(line) for line in text.splitlines()}
    text = text if text.endswith("\n") else f"{text}\n"
    room = MAX_MEMORY - len(text.encode())
    added: list[str] = []
    for fact in facts:
        size = len(fact.encode()) + len("- \n")
        if _key(fact) not in known and size <= room:
            room -= size
            known.add(_key(fact))
            added.append(fact)
    return text + "".join(f"- {fact}\n" for fact in added), tuple(added)


def _key(line: str) -> str:
    """Return *line* without marks, case and the stop at its end: facts with the same key are one."""
    return " ".join(line.casefold().split()).lstrip(_MARKS).rstrip(".! ")
