"""Edits that no test can notice, by reason."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, tuple[str, ...]]] = {
    "It is for type checkers alone: the other part of the condition implies it.": (
        (
            "runtime/actor/loop.py Session._come_back: "
            "doubtful is not None and letter is not None and head == records.head + len(records.unwritten) → "
            "(doubtful is not None) and (head == records.head + len(records.unwritten))"
        ),
        (
            'runtime/handle.py SessionHandle._attached: change.kind == "attach" and change.seat is not None → '
            "(change.kind == 'attach')"
        ),
    ),
    "It costs time alone: more is kept before a sweep, or an empty list of readers is gone through.": (
        "runtime/actor/loop.py Session._handle: self.traces → True",
        "runtime/shared/timers.py Timers._sweep: 2 → 3",
    ),
    "It is about the words of an error alone.": (
        (
            'runtime/work/plugin_asks.py _answer: ", ".join(sorted(world.services)) or "none" → '
            "(', '.join(sorted(world.services)))"
        ),
    ),
    "It is read once, when the source has been tried for the first time, and no failure came before that.": (
        "runtime/actor/tool_sources.py RunningSource._change: self.failure = None → pass",
    ),
}
