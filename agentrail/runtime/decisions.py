"""Decisions about held calls: each goes to the session that waits for it, which may be a sub-agent."""

from __future__ import annotations

from agentrail.core.vocabulary.commands import Answer, Refused
from agentrail.errors import SessionNotAlive
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.resources import Subagents
from agentrail.runtime.shared.reply_slot import Slot


async def decided(
    ref: str, letter: Letter, slot: Slot[Answer], mailbox: Mailbox, subagents: Subagents | None
) -> Answer:
    """Send *letter*, a decision about *ref*, to one of *subagents* if it waits there, else to *mailbox*.

    Return the answer. If the sub-agent has ended, or ends meanwhile, it is the one that it gave to the command id.
    """
    below = None if subagents is None else subagents.mailbox(ref)
    answer = None
    if below is not None:
        below.post_said(letter)
        answer = await slot.wait()
    if subagents is not None and (answer is None or _has_ended(answer)):
        known = await subagents.answered(ref, letter)
        answer = answer if known is None else known
    if answer is None:
        mailbox.post_said(letter)
        answer = await slot.wait()
    return answer


def _has_ended(answer: Answer) -> bool:
    """Whether the session that was to answer had ended by then."""
    return isinstance(answer, Refused) and isinstance(answer.error, SessionNotAlive)
