"""The bugs that can be planted: edits in the form of `property_tests.mutants.hand_edits`, beside this file.

Those of `authors.txt` were invented by who wrote the tests, those of `readers.txt` by who had read the design and the
code and not the tests. Edits with the same words are one bug. The line that begins with `= ` names the search that
finds it, and the seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from attrs import frozen

from property_tests.mutants.hand_edits import HandEdit, NotAnEditError, read, write

FILES: Final = tuple(Path(__file__).with_name(f"{who}.txt") for who in ("authors", "readers"))

_OUTCOME: Final = re.compile(r"(?:not )?found by (\w+)(?: with seed (\d+): (.+))?")


class Found(NamedTuple):
    """The seed that found a bug, and the rule that was broken with it."""

    seed: int
    rule: str


@frozen
class Bug:
    """A bug that can be planted."""

    words: str
    """What the code does wrong with it."""
    edits: tuple[HandEdit, ...]
    """What makes it."""
    is_readers: bool
    """Whether somebody has invented it who had not seen the tests."""
    finder: str
    """Name of the search that finds it, one of `property_tests.planted.finding.FINDERS`."""
    found: Found | None
    """The stored seed that finds it; `None` if none does."""


def load() -> dict[str, Bug]:
    """Return the bugs by their words; raise `NotAnEditError` if one does not fit the source any more."""
    edits: dict[str, list[HandEdit]] = {}
    authors, readers = (_edits_of(file) for file in FILES)
    for edit in (*authors, *readers):
        edits.setdefault(edit.loses, []).append(edit)
    readers_words = {edit.loses for edit in readers}
    return {words: _bug(words, tuple(its), is_readers=words in readers_words) for words, its in edits.items()}


def _edits_of(file: Path) -> list[HandEdit]:
    edits, problems = read(file.read_text(encoding="utf-8"))
    if problems:
        raise NotAnEditError("\n".join(problems))
    return edits


def _bug(words: str, edits: tuple[HandEdit, ...], *, is_readers: bool) -> Bug:
    (outcome,) = {edit.outcome for edit in edits}
    parts = _OUTCOME.fullmatch(outcome)
    if parts is None:
        raise NotAnEditError(f"{words}: it does not say what finds it: `= {outcome}`")
    finder, seed, rule = parts.groups()
    return Bug(words, edits, is_readers, finder, None if seed is None else Found(int(seed), rule))


def store(found: Mapping[str, Found], bugs: Iterable[Bug], files: Iterable[Path] = FILES) -> None:
    """Write below each of *bugs* the seed that has found it, if it is in *found*."""
    outcomes = {
        edit.name: f"found by {bug.finder} with seed {found[bug.words].seed}: {found[bug.words].rule}"
        for bug in bugs
        if bug.words in found
        for edit in bug.edits
    }
    for file in files:
        write(outcomes, file)
