"""The contract of host plugins as a table, for the page of the host."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.values.value import Value
from docs.printing.markdown import code, codes, joined, table


class Member(Value):
    """The contract of one member, as sentences for the documentation; `None` if a case does not apply."""

    order: str | None
    """In which order plugins come."""
    error: str | None
    """What an exception does."""
    deadline: str | None
    """What happens when its time is over."""
    critical: str | None
    """What else the failure of a critical plugin does."""
    wrong: str
    """What a value of a wrong kind does."""


FIRST: Final = "higher priority first; equal: in the order of registration"
NEXT: Final = "reported; the next plugin runs"
IGNORED: Final = "nothing else"
REFUSED: Final = "refused when the plugin is given to the host"
LATE: Final = "cancelled; as an exception"
AS_ERROR: Final = "as an exception"
_TELLS: Final = Member(FIRST, NEXT, LATE, IGNORED, AS_ERROR)
_READ: Final = Member(None, None, None, None, REFUSED)

CONTRACT: Final[Mapping[str, Member]] = MappingProxyType(
    {
        "name": _READ,
        "version": _READ,
        "priority": Member(FIRST, None, None, None, REFUSED),
        "critical": _READ,
        "start": Member(
            FIRST,
            "reported; what had started is stopped in reverse, and the start of the host fails",
            LATE,
            IGNORED,
            AS_ERROR,
        ),
        "stop": Member("the exact reverse of `start`", "reported; the rest still stop", LATE, IGNORED, AS_ERROR),
        "intercept": Member(
            f"{FIRST}; the first answer counts",
            NEXT,
            LATE,
            "the request is refused: 503, `plugin-failed`",
            AS_ERROR,
        ),
        "context_providers": Member(f"the host's own, the profile's, then: {FIRST}", NEXT, LATE, IGNORED, AS_ERROR),
        "attachment_handler": Member(f"{FIRST}; texts are joined by a blank line", NEXT, LATE, IGNORED, AS_ERROR),
        "on_request_start": _TELLS,
        "on_request_end": _TELLS,
        "before_tool_call": Member(f"{FIRST}; the first `Deny` counts", NEXT, LATE, "the call is refused", AS_ERROR),
        "after_tool_call": Member(FIRST, NEXT, LATE, "the result is withheld", AS_ERROR),
        "on_turn_persisted": _TELLS,
    }
)
"""The members of a host plugin, and what the host does with each."""


def rules() -> list[str]:
    """Return what holds for the hooks of a host plugin, and a table of the members with rules of their own."""
    plain = [name for name, member in CONTRACT.items() if member.wrong == REFUSED]
    return joined(
        (
            [
                f"- Order: {FIRST}.",
                f"- An exception: {NEXT}.",
                f"- Too late: {LATE}.",
                f"- A value of a wrong kind: {AS_ERROR}; of {codes(plain)}: {REFUSED}.",
                "- A failure of a critical plugin: the same as of another.",
            ],
            ["Where a member has a rule of its own, the table says it:"],
            table(("member", "order", "an exception", "if critical"), _own_rules()),
        )
    )


def _own_rules() -> list[tuple[str, ...]]:
    """Return the rows of the members that differ from the rules for all; a cell that does not differ is empty."""
    usual = (FIRST, NEXT, IGNORED, None)
    rows = {name: (member.order, member.error, member.critical) for name, member in CONTRACT.items()}
    own = {name: ["" if cell in usual else str(cell) for cell in row] for name, row in rows.items()}
    return [(code(name), *(cell.replace(FIRST, "as all") for cell in row)) for name, row in own.items() if any(row)]
