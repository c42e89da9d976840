"""`BackTest`: what other plugins would have done in sessions that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from agentrail.insight.session_backtest import Parting, SessionBackTest
from agentrail.values.value import Value

MOST_LISTED: Final = 20
"""The most sessions, and the most reasons, that the table lists; it says how many more there are."""

LONGEST: Final = 160
"""The most characters of a sentence in the table."""


class BackTest(Value, gc=True):
    """What a candidate would have done in sessions that happened."""

    sessions: tuple[SessionBackTest, ...]
    """The sessions that were compared, or of which it is said why not, in the order of their ids."""
    remaining: int = 0
    """How many sessions were not looked at, because it was stopped."""

    @property
    def parting(self) -> tuple[SessionBackTest, ...]:
        """The sessions in which the candidate does something else."""
        return tuple([session for session in self.sessions if session.parts])

    @property
    def counts(self) -> Mapping[str, int]:
        """How many sessions there are, part and were not compared to their end, with how many turns and records."""
        return {
            "sessions": len(self.sessions),
            "part": len(self.parting),
            "skipped": sum(bool(session.skipped) for session in self.sessions),
            "remaining": self.remaining,
            "turns": sum(session.turns for session in self.sessions),
            "records": sum(session.records for session in self.sessions),
            "rulings": sum(session.rulings for session in self.sessions),
        }

    @property
    def inexact(self) -> Mapping[str, int]:
        """What could not be compared exactly, or not at all, in sentences, and in how many sessions."""
        reasons: Counter[str] = Counter()
        for session in self.sessions:
            reasons.update([*session.inexact, *([session.skipped] if session.skipped else [])])
        return dict(reasons.most_common())

    def table(self) -> str:
        """Return the outcome as text: how many sessions part, where each does, and both sides' reasons."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        counts = self.counts
        yield (
            f"{_many(counts['sessions'], 'session')}, {_many(counts['turns'], 'turn')}, "
            f"{_many(counts['rulings'], 'ruling')}: {differ(counts['part'])}"
        )
        if self.remaining:
            yield f"{_many(self.remaining, 'session')} not looked at: it was stopped"
        parting = self.parting
        for session in parting[:MOST_LISTED]:
            yield from ("", *_session_lines(session))
        if len(parting) > MOST_LISTED:
            yield f"\nand {_many(len(parting) - MOST_LISTED, 'more session')}"
        reasons = list(self.inexact.items())
        if reasons:
            yield "\nnot compared, or not exactly:"
        for reason, sessions in reasons[:MOST_LISTED]:
            yield f"  {_many(sessions, 'session')}: {_line(reason)}"
        if len(reasons) > MOST_LISTED:
            yield f"  and {len(reasons) - MOST_LISTED:,} more reasons"

    def json(self) -> Mapping[str, object]:
        """Return the outcome as data that JSON can hold."""
        return {
            "counts": dict(self.counts),
            "inexact": dict(self.inexact),
            "sessions": [
                {
                    "session": session.session_id,
                    "records": session.records,
                    "turns": session.turns,
                    "parts": [_part_data(part) for part in session.parts],
                    "inexact": list(session.inexact),
                    "skipped": session.skipped,
                }
                for session in self.sessions
                if session.parts or session.skipped or session.inexact
            ],
        }


def differ(sessions: int) -> str:
    """Return how many *sessions* differ, as text."""
    return f"{sessions:,} {'differs' if sessions == 1 else 'differ'}"


def _session_lines(session: SessionBackTest) -> Iterator[str]:
    for part in session.parts:
        call = f", call {part.call_id}" if part.call_id else ""
        guess = "a guess: " if part.guess else ""
        yield f"{guess}{session.session_id}, turn {part.turn}, record {part.record}: `{part.hook}`{call}: {part.field}"
        yield f"  then: {_line(part.then.sentence)}"
        yield f"  now:  {_line(part.now.sentence)}"
        if part.took_effect is None:
            yield "  it never takes effect"
        elif part.took_effect != part.record:
            yield f"  it takes effect in record {part.took_effect}"


def _part_data(part: Parting) -> Mapping[str, object]:
    return {
        "record": part.record,
        "turn": part.turn,
        "hook": part.hook,
        "call": part.call_id,
        "field": part.field,
        "then": _side(part, then=True),
        "now": _side(part, then=False),
        "took_effect": part.took_effect,
        "guess": part.guess,
    }


def _side(part: Parting, *, then: bool) -> Mapping[str, object]:
    explanation = part.then if then else part.now
    return {
        "verdict": explanation.ruling.verdict.value,
        "plugin": explanation.ruling.by,
        "sentence": explanation.sentence,
        "steps": [step.sentence for step in explanation.steps],
    }


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
