"""Keeps track of the effects that a session has asked for and that have not ended yet."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import assert_never

import attrs

from agentrail.core.vocabulary.effects import (
    AnyEffect,
    CancelAsk,
    CancelCalls,
    CancelCompaction,
    CancelRequest,
    CarryOut,
    ClearTimer,
    CloseSession,
    ProbeCall,
    ReportStart,
    ResumeSubagents,
    SetTimer,
    StartCall,
    StartCompaction,
    StartRequest,
    StopSubagents,
    WriteLog,
)
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    AskSettled,
    CallProbed,
    CallsEnded,
    CompactionEnded,
    CompactionFailed,
    StreamCut,
    StreamEnded,
    SubagentEnded,
    SubagentReported,
    SubagentStarted,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.core.vocabulary.tool_calls import Subagent
from agentrail.values.stream import ModelRequest
from agentrail.values.usage import NOTHING_USED, Usage

MAX_LATE = 4
"""How many cancelled requests, asks and compactions are kept to answer too late."""


class InvariantBrokenError(AssertionError):
    """A step of a session broke an invariant."""


def demand(holds: bool, what: str, *about: object) -> None:
    """Raise `InvariantBrokenError` with *what* unless *holds*; *about* fills each `{}` in *what*.

    To write out what holds would take a fifth of the time of a drawn session.
    """
    if not holds:
        raise InvariantBrokenError(what.format(*about) if about else what)


@attrs.define
class RequestOut:
    """A request to the model that has not ended; `began` says that its first chunk has come."""

    request: ModelRequest
    began: bool = False
    cancelled: bool = False


@attrs.define
class CallOut:
    """A call, or the probe of one, that has not ended."""

    start: StartCall | ProbeCall
    cancelled: bool = False


@attrs.define
class AskOut:
    """A question that a plugin has asked (action `Ask`) and that is not answered yet."""

    effect: CarryOut
    cancelled: bool = False


@attrs.define
class CompactionOut:
    """A compaction that has not ended."""

    start: StartCompaction
    cancelled: bool = False


@attrs.define
class AgentOut:
    """A sub-agent that has not ended, with what its last report said."""

    call_id: str
    background: bool
    heard: int = 0
    used: Usage = NOTHING_USED
    waits: bool = False
    works: bool = True
    cancelled: bool = False


@attrs.define
class Outstanding:
    """All work and timers of a session that have not ended; cancelled work stays in, because it may still answer."""

    requests: dict[str, RequestOut] = attrs.Factory(dict[str, RequestOut])
    calls: dict[str, CallOut] = attrs.Factory(dict[str, CallOut])
    asks: dict[str, AskOut] = attrs.Factory(dict[str, AskOut])
    compactions: dict[str, CompactionOut] = attrs.Factory(dict[str, CompactionOut])
    agents: dict[str, AgentOut] = attrs.Factory(dict[str, AgentOut])
    timers: dict[str, int] = attrs.Factory(dict[str, int])
    fired_late: list[str] = attrs.Factory(list[str])
    reports: list[ReportStart] = attrs.Factory(list[ReportStart])
    closed: bool = False
    ended_at_once: tuple[str, ...] = ()
    """Ids of the calls that the last `CallsEnded` ended: the end of one may have the machine cancel those after it."""

    def copy(self) -> Outstanding:
        """Return a copy that can be changed without changing this one."""
        return Outstanding(
            {name: copy(out) for name, out in self.requests.items()},
            {name: copy(out) for name, out in self.calls.items()},
            {name: copy(out) for name, out in self.asks.items()},
            {name: copy(out) for name, out in self.compactions.items()},
            {name: copy(out) for name, out in self.agents.items()},
            dict(self.timers),
            list(self.fired_late),
            list(self.reports),
            self.closed,
            self.ended_at_once,
        )

    def perform(self, effect: AnyEffect, now: int) -> None:
        """Note what *effect* starts or stops; raise `InvariantBrokenError` if it cannot be, such as a second start."""
        match effect:
            case StartRequest() | StartCall() | ProbeCall() | CarryOut() | StartCompaction():
                self._start(effect)
            case CancelRequest(request_id=name):
                _cancel(self.requests, name, self.live_requests)
            case CancelAsk(ask_id=name):
                _cancel(self.asks, name, self.live_asks)
            case CancelCompaction(compaction_id=name):
                _cancel(self.compactions, name, self.live_compactions)
            case CancelCalls(call_ids=call_ids):
                self._cancel_calls(call_ids)
            case SetTimer() | ClearTimer():
                self._keep_time(effect, now)
            case ReportStart():
                demand(not self.reports, "the start was reported twice")
                self.reports.append(effect)
            case CloseSession():
                demand(not self.closed, "the session was closed twice")
                self.closed = True
            case StopSubagents(children=children):
                self._stop_subagents(children)
            case ResumeSubagents() | WriteLog():
                pass
            case _:
                assert_never(effect)

    def answered(self, input_: AnyInput) -> None:
        """Note *input_*: the work that it ends is no longer outstanding."""
        match input_:
            case StreamEnded(request_id=request_id) | StreamCut(request_id=request_id):
                del self.requests[request_id]
            case ToolReturned() | ToolRaised() | ToolStopped() | CallProbed():
                del self.calls[input_.call_id]
            case CallsEnded():
                self.ended_at_once = tuple(call.call_id for call in input_.ended)
                for call_id in self.ended_at_once:
                    del self.calls[call_id]
            case AskSettled(ask_id=ask_id):
                del self.asks[ask_id]
            case CompactionEnded(compaction_id=name) | CompactionFailed(compaction_id=name):
                del self.compactions[name]
            case SubagentStarted(child=child):
                self.agents[child] = AgentOut(input_.call_id, input_.background)
            case SubagentReported(child=child) if child in self.agents:
                out = self.agents[child]
                out.heard, out.used, out.waits, out.works = input_.heard, input_.used, input_.waits, input_.works
            case SubagentEnded(child=child):
                ended = self.agents.pop(child)
                if not ended.background and ended.call_id in self.live_calls:
                    # The result of the sub-agent is the result of the call, and the tool's own return is ignored
                    del self.calls[ended.call_id]
            case _:
                pass

    def _start(self, effect: StartRequest | StartCall | ProbeCall | CarryOut | StartCompaction) -> None:
        match effect:
            case StartRequest(request=request):
                demand(not self.live_requests, "a second request is out")
                self.requests[request.request_id] = RequestOut(request)
            case StartCall(call_id=call_id) | ProbeCall(call_id=call_id):
                demand(call_id not in self.calls, "{} starts a call that runs", effect)
                self.calls[call_id] = CallOut(effect)
            case CarryOut(ask_id=ask_id):
                demand(ask_id not in self.asks, "{} is asked for twice", effect)
                self.asks[ask_id] = AskOut(effect)
            case StartCompaction(compaction_id=compaction_id):
                demand(not self.live_compactions, "a second compaction runs")
                self.compactions[compaction_id] = CompactionOut(effect)
            case _:
                assert_never(effect)

    def _stop_subagents(self, children: tuple[str, ...]) -> None:
        for child in children:
            demand(child in self.agents, "the sub-agent {} is stopped and does not run", child)
            self.agents[child].cancelled = True

    def _cancel_calls(self, call_ids: tuple[str, ...]) -> None:
        for call_id in call_ids:
            out = self.calls.get(call_id)
            if out is None and call_id in self.ended_at_once:
                continue
            demand(out is not None and not out.cancelled, "the call {} is cancelled and does not run", call_id)
            if out is not None:
                out.cancelled = True

    def _keep_time(self, effect: SetTimer | ClearTimer, now: int) -> None:
        name = effect.timer
        due = self.timers.pop(name, None)
        if due is not None and due <= now + 1:
            self.fired_late = [*self.fired_late[1 - MAX_LATE :], name]
        if isinstance(effect, SetTimer):
            self.timers[name] = effect.due_ms
        else:
            demand(due is not None, "{} clears nothing", effect)

    def back(self, agents: tuple[Subagent, ...], effects: Sequence[AnyEffect]) -> None:
        """Note which of *agents* the *effects* resume after a restart of the process."""
        back = {child for effect in effects if isinstance(effect, ResumeSubagents) for child in effect.children}
        for agent in agents if back else ():
            if agent.child in back:
                self.agents[agent.child] = AgentOut(
                    agent.call_id, agent.background, agent.heard, agent.used, agent.waits, agent.works
                )

    def asked_for(self, call_id: str) -> str | None:
        """Return the sub-agent whose end a call waits for; `None` if there is none."""
        waited = (child for child, out in self.agents.items() if out.call_id == call_id and not out.background)
        return next(waited, None)

    @property
    def live_requests(self) -> list[str]:
        """Ids of the outstanding requests that were not cancelled."""
        return [name for name, out in self.requests.items() if not out.cancelled]

    @property
    def live_calls(self) -> list[str]:
        """Ids of the outstanding calls that were not cancelled."""
        return [name for name, out in self.calls.items() if not out.cancelled]

    @property
    def live_asks(self) -> list[str]:
        """Ids of the outstanding asks that were not cancelled."""
        return [name for name, out in self.asks.items() if not out.cancelled]

    @property
    def live_compactions(self) -> list[str]:
        """Ids of the outstanding compactions that were not cancelled."""
        return [name for name, out in self.compactions.items() if not out.cancelled]

    @property
    def late_answers(self) -> int:
        """How many requests, asks and compactions were cancelled and may still answer, which each is a record."""
        live = len(self.live_requests) + len(self.live_asks) + len(self.live_compactions)
        return len(self.requests) + len(self.asks) + len(self.compactions) - live


def _cancel(
    those: dict[str, RequestOut] | dict[str, AskOut] | dict[str, CompactionOut], name: str, live: list[str]
) -> None:
    demand(name in live, "{} is cancelled and is not out", name)
    those[name].cancelled = True
    late = [other for other, out in those.items() if out.cancelled]
    for other in late[:-MAX_LATE]:
        del those[other]
