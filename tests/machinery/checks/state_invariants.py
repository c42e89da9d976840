"""The invariants of a session, checked after every step by a `Ledger`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentrail import Accepted, State
from agentrail.core.machine.endings import TURN_TIMER
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.commands import Done
from agentrail.core.vocabulary.effects import StartCall, StartRequest
from agentrail.core.vocabulary.inputs import CallProbed, CompactionEnded
from agentrail.core.vocabulary.tool_calls import WAITS_FOR_PERSON, CallStatus, Subagent, touches_files
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentStart,
    ApprovalRequired,
    ApprovalResolved,
    AskAnswered,
    AskStarted,
    AskUser,
    CompactEnd,
    CompactStart,
    Envelope,
    Event,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    ResultRequired,
    SessionEnded,
    SteeringApplied,
    SteeringReceived,
    ToolBlocked,
    ToolExecutionEnd,
    UserResponded,
)
from agentrail.models import AssistantMessage, Message, Usage
from agentrail.testing.world.outstanding import AgentOut, Outstanding, demand
from agentrail.tools import EffectClass, NotStarted
from agentrail.values.json import canonical
from agentrail.values.messages import why_unfit
from agentrail.values.tools import CAN_RUN_AGAIN
from tests.kit import ApproveSent, Arrival, Phase, PromptSent, SteerSent
from tests.machinery.checks.session_checks import Course
from tests.machinery.checks.step_checks import check_promises
from tests.machinery.checks.transition import Transition

RECORDER = "Recorder"
"""The key of the plugin that notes each `after_turn`; every session under test should have it."""


class Ledger:
    """Checks the invariants of one session after every step."""

    def __init__(self) -> None:
        self.open_turn: str | None = None
        self.outcomes: list[str] = []
        self.call_ids: set[str] = set()
        self.blocked: set[str] = set()
        self.held: dict[str, str] = {}
        self.ever_held: set[str] = set()
        self.consents: dict[str, str] = {}
        self.attempts: Counter[str] = Counter()
        self.effects: dict[str, EffectClass] = {}
        self.asks: set[str] = set()
        self.waiting: set[str] = set()
        self.compacting = 0
        self.ended = False
        self.course = Course()

    def check(self, old: State, arrival: Arrival, step: Step, out: Outstanding) -> None:
        """Raise `InvariantBrokenError` if *step* broke an invariant; its effects must be in *out* already."""
        after = step.state
        self._answered(old, arrival, step)
        input_ = arrival.input
        if isinstance(input_, CallProbed) and isinstance(input_.outcome, NotStarted):
            self.attempts[input_.call_id] -= 1
        for effect in step.effects:
            if isinstance(effect, StartCall):
                self._starts(effect, old, after)
            elif isinstance(effect, StartRequest):
                _fit(effect.request.messages)
        _numbers(old, step)
        _usage(old.usage, after.usage)
        _history(old, after)
        _idle(after)
        _outstanding(after, out)
        _starts_all(after)
        _subagents(after, out)
        _clock(after)
        _work(after, out)
        self._new_calls(old, arrival, after)
        self._calls(after)
        self._turns(after)
        self._prompts(after)
        if old.phase is Phase.ENDED:
            demand(not step.events and not step.effects and after == old, "something came after the end")
            return
        transition = Transition(old, arrival, step)
        check_promises(transition)
        self.course.check(transition)

    # Notes of answers and events

    def _answered(self, old: State, arrival: Arrival, step: Step) -> None:
        input_, answer = arrival.input, step.answer
        if isinstance(input_, PromptSent | SteerSent) and isinstance(answer, Accepted):
            self.waiting.add(answer.ref)
        if isinstance(input_, ApproveSent) and isinstance(answer, Done) and old.batch is not None:
            for call in old.batch.calls:
                if call.hold is not None and call.hold.approval_id == input_.approval_id:
                    agreed = call.hold.args if input_.args is None else input_.args
                    self.consents[call.call_id] = canonical(agreed)
        for envelope in step.events:
            demand(not self.ended, "{} comes after the end", envelope.event)
            if not _of_a_subagent(envelope):
                self._hears(envelope.event)

    def _hears(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case per kind of event
        match event:
            case AgentStart(ref=ref):
                demand(self.open_turn is None, "{} starts inside another turn", event)
                self.open_turn = ref
            case AgentEnd() | AgentAbort():
                self._closes(event)
            case PromptReceived(ref=ref) | PromptRejected(ref=ref) | PromptDropped(ref=ref) | PromptWithdrawn(ref=ref):
                self.waiting.discard(ref)
            case SteeringApplied(refs=refs):
                self.waiting.difference_update(refs)
            case SteeringReceived(ref=ref, status=status):
                if status != "queued":
                    self.waiting.discard(ref)
            case ToolBlocked(call_id=call_id):
                self.blocked.add(call_id)
            case AskStarted(ask_id=ask_id):
                self.asks.add(ask_id)
            case AskAnswered(ask_id=ask_id):
                demand(ask_id in self.asks, "{} answers nothing", event)
                self.asks.discard(ask_id)
            case CompactStart():
                self.compacting += 1
            case CompactEnd():
                self.compacting -= 1
            case SessionEnded():
                self.ended = True
            case _:
                self._hears_of_people(event)

    def _hears_of_people(self, event: Event) -> None:
        match event:
            case ApprovalRequired(call_id=call_id, approval_id=approval_id):
                demand(call_id not in self.held, "{} is held twice", call_id)
                self.held[call_id] = approval_id
                self.ever_held.add(call_id)
                self.consents.pop(call_id, None)
            case ApprovalResolved(status="cleared", approval_id=approval_id):
                demand(approval_id not in self.held.values(), "{} ends a doubt, and is held", event)
            case ApprovalResolved(call_id=call_id, approval_id=approval_id):
                demand(self.held.pop(call_id, None) == approval_id, "{} resolves what is not held", event)
            case AskUser(ref=ref, call_id=call_id) | ResultRequired(ref=ref, call_id=call_id):
                demand(call_id not in self.held, "{} waits for a person twice", call_id)
                self.held[call_id] = ref
            case UserResponded(ref=ref):
                demand(ref in self.held.values(), "{} answers what was not asked", event)
                self.held = {call_id: other for call_id, other in self.held.items() if other != ref}
            case ToolExecutionEnd(call_id=call_id, late=False) if ":r" in self.held.get(call_id, ""):
                del self.held[call_id]  # its result has come from elsewhere
            case _:
                pass

    def _closes(self, event: AgentEnd | AgentAbort) -> None:
        if event.ref is None:
            demand(self.open_turn is None, "{} does not name the open turn", event)
            return
        demand(event.ref == self.open_turn, "{} closes a turn that is not open", event)
        self.open_turn = None
        self.outcomes.append("finished" if isinstance(event, AgentEnd) else "aborted")

    # Checks of the state against the events of earlier steps

    def _turns(self, after: State) -> None:
        going = after.turn is not None and after.turn.ended is None
        demand(going == (self.open_turn is not None), "the open turn and its events differ")
        for attached, remembered in zip(after.plugins, after.plugin_states, strict=False):
            if attached.key == RECORDER:
                demand(
                    remembered == tuple(self.outcomes),
                    "after_turn ran for {}, turns ended {}",
                    remembered,
                    self.outcomes,
                )

    def _prompts(self, after: State) -> None:
        other = {prompt.ref for prompt in after.queue} | {text.ref for text in after.steering}
        if after.next_prompt is not None:
            other.add(after.next_prompt.ref)
        demand(self.waiting == other, "accepted and not settled: {}; waiting: {}", self.waiting, other)
        demand(self.asks == {waiting.ask_id for waiting in after.suspended_runs}, "asks and events differ")
        running = after.compaction is not None and after.compaction.running
        demand(self.compacting == int(running), "compactions and events differ")

    def _calls(self, after: State) -> None:
        if after.batch is None:
            demand(not self.held, "something is held, and no batch is open")
            return
        for call in after.batch.calls:
            if call.spec is not None:
                self.effects[call.call_id] = call.spec.effect
            demand((call.status is CallStatus.DONE) == (call.result is not None), "{} is done and has no result", call)
            demand(call.status is not CallStatus.SETTLING or after.is_paused, "{} is not settled", call)
            demand((call.call_id in self.held) == (call.status in WAITS_FOR_PERSON), "{} and its events differ", call)

    def _starts(self, start: StartCall, old: State, after: State) -> None:
        call_id = start.call_id
        demand(call_id not in self.blocked, "the blocked call {} runs", call_id)
        if call_id in self.ever_held:
            demand(self.consents.get(call_id) == canonical(start.args), "{} runs without consent to just this", start)
        self.attempts[call_id] += 1
        demand(self.attempts[call_id] == start.attempt, "{} is attempt {}", start, self.attempts[call_id])
        if start.attempt > 1:
            waits = any(agent.call_id == call_id for agent in after.subagents)  # a resumed sub-agent restarts its call
            demand(waits or self.effects.get(call_id) in CAN_RUN_AGAIN, "{} runs again, which is not safe", start)
        elsewhere = start.name in after.tools and after.tools[start.name].spec.elsewhere
        demand(not elsewhere, "{} runs here, and is made elsewhere", start)
        demand(start.name in after.tools, "{} runs a tool that is not there", start)
        demand(after.tools[start.name].revision == start.revision, "{} runs a form of its tool that is gone", start)
        # A plugin that joins in this step, after the end of the turn, was not asked
        attached_plugins = (old.plugins, after.plugins)
        guarded = all(any(attached.plugin.endswith(":Guard") for attached in row) for row in attached_plugins)
        demand(not guarded or start.args.get("path") != "secret", "{} runs past a guard", start)

    def _new_calls(self, old: State, arrival: Arrival, after: State) -> None:
        if after.history is old.history or isinstance(arrival.input, CompactionEnded):
            return
        for message in after.history[len(old.history) :]:
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                demand(call.call_id not in self.call_ids, "the id {} is used twice", call.call_id)
                self.call_ids.add(call.call_id)


def _of_a_subagent(envelope: Envelope) -> bool:
    """Return whether an event reports a held call or a question of a sub-agent, not of the session itself."""
    match envelope.event:
        case ApprovalRequired(approval_id=ref) | ApprovalResolved(approval_id=ref):
            return not ref.startswith(f"{envelope.session_id}:")
        case AskUser(ref=ref) | UserResponded(ref=ref) | ResultRequired(ref=ref):
            return not ref.startswith(f"{envelope.session_id}:")
        case _:
            return False


def _subagents(after: State, out: Outstanding) -> None:
    """Check that the state has exactly the outstanding sub-agents, as last reported; none after the session's end."""
    if after.phase is Phase.ENDED:
        demand(not after.subagents, "the session has ended before {}", after.subagents)
        return
    here = [agent for agent in after.subagents if not agent.rests]
    demand(after.is_paused or len(here) == len(after.subagents), "a sub-agent rests, and its turn does not")
    expected = {agent.child: _as_told(agent) for agent in here}
    other = {child: _as_told(agent) for child, agent in out.agents.items()}
    demand(expected == other, "sub-agents {}, outstanding {}", expected, other)
    demand(
        after.stop_reason is None or all(agent.cancelled for agent in out.agents.values()),
        "it stops, and a sub-agent goes on",
    )


def _as_told(agent: Subagent | AgentOut) -> tuple[object, ...]:
    return agent.call_id, agent.background, agent.heard, agent.used, agent.waits, agent.works


def _clock(after: State) -> None:
    """Check that the timer of the turn's time limit is set, unless the turn only waits for a person."""
    turn = after.turn
    if turn is None or turn.ended is not None or after.setup.options.max_turn_seconds is None:
        return
    ticks = any(name == TURN_TIMER for name, _ in after.timers)
    demand(ticks != after.waits, "the time of the turn {}, waits: {}", "runs" if ticks else "stands still", after.waits)


def _work(after: State, out: Outstanding) -> None:
    """Check that working time is counted while something runs that ends without a person, if a plugin counts it."""
    if after.phase in (Phase.NEW, Phase.ENDED) or not any(attached.counts_work for attached in after.plugins):
        demand(after.working_since_ms is None or after.phase is Phase.NEW, "{} counts its work", after.phase)
        return
    stand = {agent.call_id for agent in after.subagents if not (agent.works or agent.background)}
    busy = any(agent.works and not agent.rests for agent in after.subagents)
    if after.phase is not Phase.IDLE:
        busy = busy or bool(out.live_requests or out.live_asks or out.live_compactions or {*out.live_calls} - stand)
        # The session waits until they have ended
        busy = busy or (after.stop_reason is not None and bool(after.subagents))
        waiting = () if after.batch is None else after.batch.calls
        # The call waits until another one has ended
        busy = busy or any(call.status is CallStatus.READY for call in waiting)
        busy = busy or any(name in ("retry", "grace") for name, _ in after.timers)
    demand((after.working_since_ms is not None) == busy, "it works: {}, and counts: {}", busy, after.working_since_ms)


def _starts_all(after: State) -> None:
    batch = after.batch
    if batch is None or after.is_paused or any(call.status is CallStatus.NEW for call in batch.calls):
        return
    running = [call.spec for call in batch.calls if call.status is CallStatus.RUNNING and call.spec is not None]
    busy = len(running) + len(after.lingering_calls)
    alone = any(not spec.parallel for spec in running) or any(
        not detached.parallel for detached in after.lingering_calls
    )
    full = busy >= after.setup.options.max_parallel_tools or alone
    writers = any(detached.writes and not detached.reported for detached in after.quarantined_calls)
    for call in batch.calls:
        if call.status is CallStatus.READY and call.spec is not None and not (writers and touches_files(call.spec)):
            demand(full or (not call.spec.parallel and busy > 0), "{} could run and does not", call)
            return


def _fit(messages: Sequence[Message]) -> None:
    problem = why_unfit(messages)
    demand(problem is None, "a request is not valid: {}", problem)
    demand(bool(messages) and not isinstance(messages[-1], AssistantMessage), "a request asks for nothing")


def _numbers(old: State, step: Step) -> None:
    numbers = [envelope.seq for envelope in step.events]
    demand(
        numbers == list(range(old.last_seq + 1, old.last_seq + 1 + len(numbers))),
        "numbers {} after {}",
        numbers,
        old.last_seq,
    )
    demand(step.state.last_seq == old.last_seq + len(numbers), "the state does not know its last number")


def _usage(old_usage: Usage, after: Usage) -> None:
    falls = after.input_tokens < old_usage.input_tokens or after.output_tokens < old_usage.output_tokens
    demand(not falls, "usage fell from {} to {}", old_usage, after)


def _history(old: State, after: State) -> None:
    if after.history is old.history and after.batch is old.batch:
        return
    problem = why_unfit(after.history, open_end=after.batch is not None)
    demand(problem is None, "the history is not valid: {}", problem)
    if after.batch is not None:
        last = after.history[-1]
        demand(isinstance(last, AssistantMessage), "the open batch belongs to no response")
        if isinstance(last, AssistantMessage):
            ids = tuple(call.call_id for call in last.calls)
            demand(ids == tuple(call.call_id for call in after.batch.calls), "the batch and its response differ")


def _idle(after: State) -> None:
    if after.phase not in (Phase.IDLE, Phase.ENDED):
        return
    demand(after.request is None and after.next_prompt is None, "{} with a request or a prompt in hand", after.phase)
    if after.is_paused:
        demand(after.turn is not None, "what rests since it came back is no turn")
        return
    demand(not after.suspended_runs, "{} with something due: {}", after.phase, after.suspended_runs)
    demand(after.compaction is None, "{} with something running", after.phase)
    if after.turn is None:
        waits = after.queue or after.steering or after.plugin_changes
        demand(not waits and after.batch is None, "{} and not settled", after.phase)
    else:
        demand(after.phase is Phase.IDLE and after.batch is not None, "a turn rests for nothing")
        waiting = [call for call in after.batch.calls if not call.done] if after.batch is not None else []
        demand(bool(waiting) and all(call.status in WAITS_FOR_PERSON for call in waiting), "it rests and could go on")


def _outstanding(after: State, out: Outstanding) -> None:
    demand(dict(after.timers) == out.timers, "timers {}, outstanding {}", after.timers, out.timers)
    requests = [after.request.request_id] if after.request is not None else []
    demand(requests == out.live_requests, "request {}, outstanding {}", requests, out.live_requests)
    asks = {waiting.ask_id for waiting in after.suspended_runs if waiting.is_sent}
    ruled = {waiting.run for waiting in after.suspended_runs if waiting.run}
    demand(not ruled & asks, "tools that plugins ask for run, and are still ruled on: {}", ruled & asks)
    demand(ruled <= {waiting.ask_id for waiting in after.suspended_runs}, "{} are ruled on, and nobody waits", ruled)
    demand(asks == set(out.live_asks), "asks and outstanding ones differ")
    running = after.compaction is not None and after.compaction.running
    demand(running == bool(out.live_compactions), "compaction and outstanding ones differ")
    calls = [] if after.batch is None else [c.call_id for c in after.batch.calls if c.status is CallStatus.RUNNING]
    calls += [detached.call_id for detached in after.lingering_calls]
    demand(set(calls) == set(out.live_calls), "calls {}, outstanding {}", calls, out.live_calls)
    demand(len(calls) <= after.setup.options.max_parallel_tools, "{} calls run at once", len(calls))
    if after.phase is not Phase.ENDED:
        detached_calls = {detached.call_id for detached in after.quarantined_calls}
        ending = set(out.calls) - set(out.live_calls)
        demand(detached_calls == ending, "quarantined {}, outstanding {}", detached_calls, ending)
    else:
        demand(not out.live_calls and not out.timers and out.closed, "the session has ended and something runs")
        demand(len(out.reports) == 1, "the start of the session was not reported, or twice")
    if after.phase is not Phase.NEW:
        demand(after.is_starting == (not out.reports), "the start and its report differ")
    if after.phase is Phase.STREAMING and after.request is not None:
        demand(out.requests[after.request.request_id].began, "it streams and nothing has come")
    moving = after.phase in (Phase.RUNNING, Phase.STREAMING, Phase.EXECUTING_TOOLS)
    alive = (
        requests
        or after.subagents
        or after.suspended_runs
        or running
        or calls
        or any(name == "retry" for name, _ in after.timers)
    )
    waits = "grace" in out.timers and after.phase is Phase.EXECUTING_TOOLS
    demand(not moving or bool(alive) or waits, "{} and nothing can move it", after.phase)
