"""Approvals for always that end after a time: the family that a person approves says until when."""

from __future__ import annotations

from typing import Final

from agentrail.hooks.context import Context

_UNTIL: Final = ", until "
_LAST: Final = 253_402_300_799
"""The last second of the year 9999: no later one is written, so that dates compare as texts."""


def offered(family: str | None, seconds: float | None, ctx: Context) -> str | None:
    """Return what a person may approve for always: *family*, for *seconds* from now on, or for ever if `None`.

    Return `None` if no such approval is possible: without a family, or for 0 seconds.
    """
    if family is None or seconds == 0 or _UNTIL in family:
        return None
    return family if seconds is None else f"{family}{_UNTIL}{_date(ctx.now_ms / 1000 + seconds)}"


def approved_family(tool: str, family: str | None, seconds: float | None, ctx: Context) -> str | None:
    """Return what a person has approved for always, if it covers *family* of *tool* and its time is not over."""
    if family is None or _UNTIL in family:
        return None
    if seconds is None:
        return family if (tool, family) in ctx.approved_always else None
    now, latest = _date(ctx.now_ms / 1000), _date(ctx.now_ms / 1000 + seconds)
    pairs = ((approved, approved.rpartition(_UNTIL)) for name, approved in ctx.approved_always if name == tool)
    ends = [(end, approved) for approved, (base, _, end) in pairs if base == family and now < end <= latest]
    return max(ends)[1] if ends else None


def _date(seconds: float) -> str:
    """Return the UTC date and time of *seconds* since 1970; by arithmetic, as `datetime` can read the clock."""
    days, rest = divmod(int(min(max(seconds, 0), _LAST)), 86_400)
    days += 719_468  # from the 1st of March of the year 0 on: a leap day is then the last one of its year
    era, day = divmod(days, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += era * 400 + month // 10
    return f"{year:04}-{(month + 2) % 12 + 1:02}-{day:02} {rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02} UTC"
