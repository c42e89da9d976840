"""Why a plugin cannot use the answer to what it asked for."""

from __future__ import annotations

from agentrail.hooks.actions import AskAnswer, Failed, TimedOut


def why_unanswered(answer: AskAnswer | None) -> str:
    """Return why *answer* is none that was asked for."""
    match answer:
        case Failed(error=error):
            return error
        case TimedOut(seconds=seconds):
            return f"it took more than {seconds:g} s"
        case _:
            return "the answer has another form than was asked for"
