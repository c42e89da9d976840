"""How sessions are listed for a person who is to choose one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from agentrail.cli.output.text_table import aligned
from agentrail.cli.session_names import OWN, name_in_chat
from agentrail.ports.journal import StoredSession

NOTHING_SAID: Final = "(nothing was said)"
"""In place of the title of a session that has none."""

AGES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))
"""The units of an age, the longest one first, in milliseconds."""


def condition(stored: StoredSession, *, waits: bool = False) -> str:
    """Return one word for the condition of a session: damaged, ended, working, waiting or idle.

    *waits* says that it waits for a person without a time limit, of which its summary tells nothing.
    """
    if stored.problem:
        return "damaged"
    if stored.ended:
        return "ended"
    if stored.at_work:
        return "working"
    return "waiting" if waits or stored.due is not None else "idle"


def age(milliseconds: int) -> str:
    """Return a time that has passed, in its longest unit."""
    for length, unit in AGES:
        if milliseconds >= length:
            return f"{milliseconds // length} {unit}"
    return "now"


def session_rows(
    sessions: Sequence[StoredSession], now: int, width: int, current: str = "", waiting: Collection[str] = ()
) -> list[str]:
    """Return a numbered row of at most *width* columns for each of *sessions*, with its age at *now*.

    The one whose name is *current* has a mark; those with ids among *waiting* wait for a person.
    """
    rows: list[tuple[str, ...]] = []
    for number, stored in enumerate(sessions, 1):
        name = name_in_chat(stored.session_id).removeprefix(OWN)
        mark = " *" if name == current else ""
        title = stored.about.title or NOTHING_SAID
        word = condition(stored, waits=stored.session_id in waiting)
        rows.append((f"{number}. {name}{mark}", word, age(now - stored.active), title))
    return aligned(rows, width)
