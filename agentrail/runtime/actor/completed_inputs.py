"""Completes inputs when they are handled, with facts that only the runtime knows, such as the partial response."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.endings import TURN_TIMER
from agentrail.core.vocabulary.commands import AbortSent, ApproveSent, RejectSent, SteerSent, StopSent
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    Arrival,
    ElsewhereUsed,
    HooksWereSlow,
    StreamBegan,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentReported,
    TimerFired,
)
from agentrail.core.vocabulary.state import State
from agentrail.hooks.plugin import ON_EVENT
from agentrail.runtime.actor.effect_runner import Performer
from agentrail.runtime.actor.parent_link import FamilyLinks
from agentrail.runtime.actor.slow_hooks import SlowHooks
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox

COMPLETED: Final = frozenset(
    {
        AbortSent,
        ApproveSent,
        ElsewhereUsed,
        HooksWereSlow,
        RejectSent,
        SteerSent,
        StopSent,
        StreamStalled,
        SubagentReported,
        TimerFired,
    }
)
"""Inputs that get facts when they are handled: the partial response, or events and usage that gathered meanwhile.

Decisions get whether their caller may decide about what they have asked for.
"""

SAYS_PARTIAL: Final = frozenset({AbortSent, SteerSent, StopSent, StreamBegan, StreamCut, StreamEnded, StreamStalled})
"""Inputs whose arrival gets no partial response: they carry it as a field, or come before there is one."""


def completed(
    letter: Letter, performer: Performer, mailbox: Mailbox, links: FamilyLinks, slow: SlowHooks | None
) -> AnyInput:
    """Return the letter's input with facts of the runtime added, such as the partial response."""
    input_ = letter.input
    if isinstance(input_, SubagentReported):
        letter.input = links.gathered(input_)
        return letter.input
    if isinstance(input_, ApproveSent | RejectSent):
        return input_.but(four_eyes=True) if letter.caller.four_eyes else input_
    if isinstance(input_, ElsewhereUsed):
        return links.latest(input_)
    if isinstance(input_, HooksWereSlow):
        if slow is not None:
            slow.note_taken()
        return input_
    if isinstance(input_, StreamStalled):
        performer.stall_taken()
    if isinstance(input_, TimerFired) and input_.timer != TURN_TIMER:
        return input_
    if isinstance(input_, StopSent):
        mailbox.resume()  # a session that is stopping still needs the results of its work
    partial = performer.partial_response()
    return input_ if partial is None else input_.but(partial=partial)


def with_partial(arrival: Arrival, state: State, performer: Performer) -> Arrival:
    """Return *arrival* with the partial response, if a critical plugin is shown events.

    Such a plugin may abort the turn in any step by raising, and the text received so far is then kept.
    """
    input_ = arrival.input
    if state.request is None or type(input_) in SAYS_PARTIAL:
        return arrival
    if isinstance(input_, TimerFired) and input_.timer == TURN_TIMER:
        return arrival
    if not any(seat.critical and ON_EVENT in seat.hooks for seat in state.plugins):
        return arrival
    partial = performer.partial_response()
    return arrival if partial is None else arrival.but(partial=partial)
