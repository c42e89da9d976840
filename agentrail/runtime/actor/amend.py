"""Amends inputs before their step: adds what only the runtime knows, and takes out what plugins screen."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import Final, Protocol

from agentrail.core.machine.endings import TURN_TIMER
from agentrail.core.vocabulary.commands import (
    AbortSent,
    ApproveSent,
    ChangeToolsSent,
    RejectSent,
    ResumeSent,
    SteerSent,
    StopSent,
    SuspendSent,
)
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    Arrival,
    ElsewhereUsed,
    SessionBranched,
    SessionOpened,
    SessionReturned,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentReported,
    TimerFired,
)
from agentrail.core.vocabulary.state import State
from agentrail.hooks.plugin import ON_EVENT
from agentrail.runtime.actor.effect_runner import EffectRunner
from agentrail.runtime.actor.parent_link import FamilyLinks
from agentrail.runtime.actor.screened_inputs import screen_arrival
from agentrail.runtime.actor.tool_sources import Sources
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.resources import SessionCode
from agentrail.runtime.shared.ids import INCARNATION_BYTES


class ActorParts(Protocol):
    """Interface: the parts of a session that inputs are amended with, or have changed before their step."""

    state: State
    """State after the last step."""
    mailbox: Mailbox
    """Its mailbox."""
    links: FamilyLinks
    """Its links to parent and sub-agents."""
    sources: Sources
    """Its sources of tools."""

    @property
    def code(self) -> SessionCode:
        """Its code."""
        ...

    @property
    def effect_runner(self) -> EffectRunner:
        """Its running work."""
        ...


AMENDED: Final = frozenset(
    {
        AbortSent,
        ApproveSent,
        ChangeToolsSent,
        ElsewhereUsed,
        RejectSent,
        ResumeSent,
        SessionBranched,
        SessionOpened,
        SessionReturned,
        SteerSent,
        StopSent,
        StreamStalled,
        SubagentReported,
        SuspendSent,
        TimerFired,
    }
)
"""Inputs that have a case in `_with_facts`; to try all cases takes 1,000 instructions for each."""

SAYS_PARTIAL: Final = frozenset({AbortSent, SteerSent, StopSent, StreamCut, StreamEnded, StreamStalled})
"""Inputs whose arrival gets no partial response: they carry it as a field."""


def amend(letter: Letter, actor: ActorParts, now_ms: int, random: Random) -> Arrival:
    """Return the arrival of the letter's input at *now_ms*, as the machine gets it; store the code that it brings."""
    if letter.code is not None:
        actor.code.add(letter.code)
    input_ = _with_facts(letter, actor, now_ms, random) if type(letter.input) in AMENDED else letter.input
    author, request_id, _ = letter.caller
    arrival = Arrival(input_, now_ms, random.random(), by=author, request=request_id)
    state = actor.state
    if state.plugins and (hook_runner := actor.code.hook_runner).audience(state.plugins).amends:
        return screen_arrival(_with_partial(arrival, state, actor.effect_runner), state, hook_runner)
    return arrival


def _with_facts(letter: Letter, actor: ActorParts, now_ms: int, random: Random) -> AnyInput:
    """Return the letter's input with what the runtime knows of it; do what must precede its step."""
    input_ = letter.input
    match input_:
        case SubagentReported():
            letter.input = actor.links.decisions(input_)  # kept, as it is handed out once: the actor may crash
            return letter.input
        case ElsewhereUsed():
            return actor.links.latest(input_)
        case ApproveSent() | RejectSent():
            return input_.but(four_eyes=True) if letter.caller.four_eyes else input_
        case SessionOpened() | SessionBranched() | SessionReturned():
            return input_.but(incarnation=_incarnation(now_ms, random))
        case SuspendSent():
            actor.mailbox.suspend()
        case ResumeSent():
            actor.mailbox.resume()
        case ChangeToolsSent() if all(name in actor.state.tools for name in input_.detach):
            actor.sources.drop(input_.closed)  # otherwise the step refuses the command, and the sources go on
        case AbortSent() | SteerSent() | StreamStalled():
            return _with_received(input_, actor.effect_runner)
        case StopSent():
            actor.mailbox.resume()  # a session that is stopping still needs the results of its work
            return _with_received(input_, actor.effect_runner)
        case TimerFired() if input_.timer == TURN_TIMER:
            return _with_received(input_, actor.effect_runner)
        case _:
            pass
    return input_


def _incarnation(now_ms: int, random: Random) -> str:
    """Return a text that is another one each time; also of the time, as with a `seed` each process draws the same.

    It is drawn by itself: the random number of the record would be found by it, which a redaction drops.
    """
    return blake2b(f"{now_ms} {random.getrandbits(64)}".encode(), digest_size=INCARNATION_BYTES).hexdigest()


def _with_received(
    input_: AbortSent | SteerSent | StopSent | StreamStalled | TimerFired, effect_runner: EffectRunner
) -> AnyInput:
    """Return *input_* with the part of the response that was received, if one has begun."""
    partial = effect_runner.partial_response()
    return input_ if partial is None else input_.but(partial=partial)


def _with_partial(arrival: Arrival, state: State, effect_runner: EffectRunner) -> Arrival:
    """Return *arrival* with the partial response, if a critical plugin is shown events.

    Such a plugin may abort the turn in any step by raising, and the text received so far is then kept.
    """
    input_ = arrival.input
    if state.request is None or type(input_) in SAYS_PARTIAL:
        return arrival
    if isinstance(input_, TimerFired) and input_.timer == TURN_TIMER:
        return arrival
    if not any(attached.critical and ON_EVENT in attached.hooks for attached in state.plugins):
        return arrival
    partial = effect_runner.partial_response()
    return arrival if partial is None else arrival.but(partial=partial)
