"""Performs the effects of a step: plain functions that start or cancel work and return at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from agentrail.core.machine.tool_results import call_timer
from agentrail.core.system_prompt import memory_of
from agentrail.core.vocabulary import effects
from agentrail.core.vocabulary.effects import AnyEffect, ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    StreamCut,
    StreamStalled,
    TimerFired,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import AgentrailError, UnknownTool
from agentrail.hooks.actions import CallModel, CallService, RunTool
from agentrail.ports.model import Model
from agentrail.ports.snapshots import snapshot_owner
from agentrail.ports.tool import Tool, ToolContext, unheard
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.actor.parent_link import FamilyLinks
from agentrail.runtime.actor.request_limits import RequestSpending, time_used_up
from agentrail.runtime.actor.reserved_request import ReservedRequest
from agentrail.runtime.actor.screened_inputs import screened_event
from agentrail.runtime.diagnosis.plugin_complaints import write_line
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.resources import SessionCode, SharedServices
from agentrail.runtime.shared.call_snapshots import CallSnapshots
from agentrail.runtime.shared.provider_limits import SendRequest
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.threads import CallThreads
from agentrail.runtime.work.background_jobs import BackgroundJobs
from agentrail.runtime.work.model_stream import Stream, UsageMeter, formed, not_told
from agentrail.runtime.work.plugin_asks import RunningAsk
from agentrail.runtime.work.reservations import SizedHistory
from agentrail.runtime.work.running_compaction import RunningCompaction
from agentrail.runtime.work.screening import Screens, screens_of
from agentrail.runtime.work.stored_messages import StoredPast
from agentrail.runtime.work.tool_call import LateCalls, RunningCall
from agentrail.values.events.envelope import Event
from agentrail.values.stream import NOTHING_YET, Failure, FailureKind, ModelRequest, Partial, Response
from agentrail.values.tools import EffectClass, PersonAnswer, err
from agentrail.values.usage import Usage

_STARTED: Final[Slot[AgentrailError | None]] = Slot()
_STARTED.settle(None)
"""The settled `started` of every session that has started: one object for all, which saves memory."""

CALL_TIMER: Final = call_timer("")
"""How the names of timers of calls begin."""

LOOK_AGAIN: Final = 1.0
"""After how many seconds it is looked again, at the earliest, whether requests of a sub-agent still wait."""


class EffectRunner:
    """All work under way of one session: requests, calls, timers, plugin requests."""

    __slots__ = (
        "_asks",
        "_calls",
        "_code",
        "_compaction",
        "_events",
        "_history",
        "_jobs",
        "_links",
        "_mailbox",
        "_note_begin",
        "_requests",
        "_session_id",
        "_shared",
        "_snapshots",
        "_stream",
        "closed",
        "late",
        "spending",
        "started",
        "state",
    )

    def __init__(
        self,
        state: State,
        shared: SharedServices,
        code: SessionCode,
        events: EventLog,
        mailbox: Mailbox,
        links: FamilyLinks,
        note_begin: Callable[[str], None],
    ) -> None:
        self.state = state  # after the last step; while its effects are not yet performed, after the one before
        self._session_id = state.session_id
        self._shared = shared
        self._code = code
        self._links = links
        code.hook_runner.complain = shared.complain
        self._events = events
        self._mailbox = mailbox
        self._note_begin = note_begin  # called when a response begins
        self._stream: Stream | None = None
        # Ids of the requests whose streams have not ended; one that was cut may be among them.
        self._requests: tuple[str, ...] = ()
        self._history: SizedHistory | None = None  # made for the first request under a limit
        self.spending: RequestSpending | None = None  # made for the first request under a limit
        self._calls: dict[str, RunningCall] | None = None
        self._asks: dict[str, RunningAsk] | None = None
        self._jobs: BackgroundJobs | None = None
        self._snapshots: CallSnapshots | None = None
        self.late = LateCalls()
        self._compaction: RunningCompaction | None = None
        self.started: Slot[AgentrailError | None] = Slot()
        self.closed = False

    @in_brackets
    def __repr__(self) -> str:
        stream = "" if self._stream is None else "streaming"
        busy = listed(stream, some(len(self._calls or ()), "call"), some(len(self._asks or ()), "question"))
        return f"{self._session_id!r} {'closed' if self.closed else busy or 'idle'}"

    def perform(self, effect: AnyEffect) -> None:
        """Start or cancel the work that *effect* names; no-op once the session is over: all is cancelled then."""
        if self.closed:
            return
        _PERFORM[type(effect)](self, effect)

    def stop_early(self, effects: Sequence[AnyEffect]) -> None:
        """Cancel the work that a step ends before the step is journaled, as cancelling never waits."""
        for effect in effects:
            if type(effect) in _STOPS:
                self.perform(effect)

    def partial_response(self) -> Partial | None:
        """Return the part of the running response that subscribers have seen."""
        return None if self._stream is None else self._stream.text_so_far()

    def stop_now(self, state: State, kill_tools: str) -> None:
        """Cancel the stream, and running calls as *kill_tools* says, before the machine handles the abort."""
        if self._stream is not None:
            self._stream.cut()
        if kill_tools == "none":
            return
        calls = () if state.batch is None else state.batch.calls
        call_ids = [call.call_id for call in calls if call.status is CallStatus.RUNNING]
        if kill_tools == "all":
            call_ids += [detached.call_id for detached in state.lingering_calls]
        for call_id in call_ids:
            running = self._call(call_id)
            if running is not None and (kill_tools == "all" or not running.immune):
                running.cancel()

    def _call(self, call_id: str) -> RunningCall | None:
        """Return the running call of this id; `None` if it does not run."""
        return None if self._calls is None else self._calls.get(call_id)

    @property
    def is_busy(self) -> bool:
        """Whether any work is under way."""
        return bool(self._requests or self._calls or self._asks or self._jobs_now or self.rewinding)

    @property
    def rewinding(self) -> CallSnapshots | None:
        """The snapshots of the files, if files are brought back now; else `None`."""
        return self._snapshots if self._snapshots is not None and self._snapshots.is_rewinding else None

    @property
    def _jobs_now(self) -> tuple[str, ...]:
        """Return the names of the running background commands."""
        return () if self._jobs is None else self._jobs.names()

    def close(self) -> None:
        """Cancel all work."""
        self.closed = True
        self._note_begin = not_told
        if self._stream is not None:
            self._stream.cut()
        for call in tuple((self._calls or {}).values()):
            call.cancel()
        for ask in tuple((self._asks or {}).values()):
            ask.cancel()
        if self._jobs is not None:
            self._jobs.close()
        self._links.close()
        if self._compaction is not None:
            self._compaction.scope.cancel()
        if self.spending is not None:
            self.spending.close()

    def _whisper(self, event: Event) -> None:
        """Publish an ephemeral event, screened by the plugins."""
        self._events.publish_ephemeral(
            screened_event(event, self.state, self._code.hook_runner), self._shared.clock.now_ms()
        )

    def _screens(self) -> Screens | None:
        """Return the `screen` of the session's plugins; `None` if none has one."""
        return screens_of(self._code.hook_runner, self.state.plugins)

    # The model

    def start_request(self, effect: effects.StartRequest) -> None:
        """Send a request in a task of its own."""
        request = effect.request
        stream = self._stream = Stream(
            effect, self._shared.clock, self._events, self._mailbox.post, self._note_begin, self._code.prices
        )
        stream.screen_by(self._screens())
        self._requests += ((request_id := request.request_id),)
        try:
            model = self.model(request.model)
        except AgentrailError as error:
            failure = Failure(FailureKind.PERMANENT, type(error).__name__, str(error))
            self._mailbox.post(StreamCut(request_id, NOTHING_YET, failure))
            return
        name = f"model {request.model} ({self._session_id})"
        body = partial(stream.run, model, self._session_id, self.limits(request_id, stream.used))
        self._shared.tasks.start(stream, body, name)
        self._watch(stream)

    def _watch(self, stream: Stream) -> None:
        """Set a timer for the time when *stream* may have stalled."""
        self._shared.timers.set((self._session_id, "stall"), stream.stalls_at, self._look)

    def _look(self) -> None:
        """Report the running response as stalled if it is, and set the timer for the next look."""
        stream = self._stream
        if stream is None or stream.closed or stream.ended:
            return
        now, stalled = self._shared.clock.now(), None
        if stream.waiting:
            stream.last = now
        elif now >= stream.stalls_at:
            if self._mailbox.find_result(StreamStalled) is None:  # one waits at most
                stalled = stream.stalled(now)
            stream.reported = now
        self._watch(stream)
        if stalled is not None:  # last, as it may be handled at once, and end the stream
            self._mailbox.post(stalled)

    def release(self, request_id: str) -> None:
        """Forget a request whose end the machine has handled."""
        self._requests = tuple([other for other in self._requests if other != request_id])
        if self._stream is not None and self._stream.request.request_id == request_id:
            self._stream = None
            self._shared.timers.clear((self._session_id, "stall"))

    def cancel_request(self, effect: effects.CancelRequest) -> None:
        """Cancel the request."""
        if self._stream is not None and self._stream.request.request_id == effect.request_id:
            self._stream.cut()

    def model(self, name: str) -> Model:
        """Return the model called *name*; `UnknownModel` if there is none."""
        own_model = self._code.models.get(name)
        return self._shared.model(name) if own_model is None else own_model

    def limits(self, name: str, used: Callable[[], Usage]) -> SendRequest:
        """Return what sends request *name*: the limits of plugins, of the tenant and of the provider have to allow it.

        *used* returns the usage so far, to be counted if the request is cut.
        """
        shared, code = self._shared, self._code
        send: SendRequest = shared.limits.stream
        spending_limit = shared.spending_limit
        if spending_limit is not None and spending_limit.limits and self.state.setup.tenant:
            history = self._sized_history
            send = ReservedRequest(spending_limit, self.state, history, code.prices, used, send).stream
        if not (self.state.plugins and code.hook_runner.audience(self.state.plugins).limits):
            return send
        if self.spending is None:
            self.spending = RequestSpending(self.state, code, self._links, shared.clock, self._sized_history)
        return partial(self.spending.stream, send, name, used)

    @property
    def _sized_history(self) -> SizedHistory:
        """The history, as all limits of money look at it."""
        if self._history is None:
            self._history = SizedHistory()
        return self._history

    async def ask_model(self, name: str, request: ModelRequest, meter: UsageMeter) -> Response:
        """Make a request for the ask or compaction *name*; *meter* counts its chunks, and no event is published."""
        model, prices = self.model(request.model), self._code.prices
        send = self.limits(name, lambda: prices.priced(request.model, request.options, meter.used(cut=True)))
        stream = partial(send, self._session_id, model, emit=meter.hear)
        return await formed(model, request, stream)

    # Tools

    def start_call(self, effect: effects.StartCall | effects.ProbeCall) -> None:
        """Run or probe a tool in a task of its own.

        If its code is not there yet, wait until the sources of tools have started; if none is starting, the call fails.
        """
        tool = self._code.tools.get((effect.name, effect.revision))
        if tool is None:
            if not self.late.takes(effect):
                why = "was redefined before the call ran" if effect.name in self.state.tools else "has no code here"
                self._mailbox.post(ToolRaised(effect.call_id, effect.attempt, f"UnknownTool: `{effect.name}` {why}"))
            return
        if self.state.plugins and (refused := self._too_late(effect)) is not None:
            self._mailbox.post(refused)
            return
        answer, snapshots = None, None
        if isinstance(effect, StartCall):
            answer = effect.person_answer
            snapshots = None if tool.spec.effect is EffectClass.PURE else self.snapshots()
        call = RunningCall(
            self._session_id,
            effect,
            tool,
            self._shared.threads,
            self._whisper,
            self._call_ended,
            self._screens(),
            snapshots,
        )
        if self._calls is None:
            self._calls = {}
        self._calls[effect.call_id] = call
        self._shared.calls.add(call)
        ctx = self._context(effect.call_id, effect.key, call.report, call.threads, answer)
        deps = None if isinstance(effect, effects.ProbeCall) else self._code.deps
        give = None if deps is None else partial(deps.context_for, tool, ctx, self.state)
        self._shared.tasks.start(call, partial(call.run, ctx, give), f"tool {call.label}")

    def snapshots(self) -> CallSnapshots | None:
        """Return the snapshots of the session's files; `None` if its sandbox takes none."""
        snapshots = self._code.surroundings.snapshots
        if snapshots is None:
            return None
        if self._snapshots is None:
            self._snapshots = CallSnapshots(snapshots, snapshot_owner(self._session_id, self.state.incarnation))
        return self._snapshots

    def _too_late(self, start: StartCall | ProbeCall) -> ToolReturned | None:
        """Return an error result if a limit of seconds was used up while the call waited to start; else `None`.

        A call that a person has approved runs in any case, as does one that goes on to wait for its sub-agent.
        """
        state, call_id = self.state, start.call_id
        if isinstance(start, ProbeCall) or not any(attached.counts_work for attached in state.plugins):
            return None
        call = None if state.batch is None else state.batch.calls.find(call_id)
        if (call is not None and call.approved is not None) or any(
            agent.call_id == call_id for agent in state.subagents
        ):
            return None
        limit = time_used_up(state, self._code, self._links, self._shared.clock.now_ms())
        problem = f"it did not run: {limit} is used up"
        return None if limit is None else ToolReturned(call_id, start.attempt, err(problem))

    def _call_ended(self, call: RunningCall, closing: AnyInput) -> None:
        """Forget a call whose task has ended, and post *closing*, its last input."""
        self._shared.calls.remove(call)
        if self._calls is not None and self._calls.get(call.call_id) is call:
            del self._calls[call.call_id]
        if isinstance(closing, ToolReturned):
            closing = self._with_jobs(closing)
        self._mailbox.post(closing)

    def _with_jobs(self, closing: ToolReturned) -> ToolReturned:
        """Return *closing* with the names of the running background commands, if the state has others."""
        jobs = self._jobs_now
        return closing if jobs == self.state.background_jobs else closing.but(jobs=jobs)

    def _context(
        self,
        call_id: str,
        key: str,
        report: Callable[[str], None],
        threads: CallThreads,
        person_answer: PersonAnswer | None = None,
    ) -> ToolContext:
        """Return the context of a tool call."""
        state = self.state
        surroundings = self._code.surroundings
        if self._jobs is None:
            self._jobs = BackgroundJobs(self._shared.nursery, closed=self.closed)
        return ToolContext(
            self._session_id,
            call_id,
            key,
            state.setup.working_dir,
            state.using[0],
            state.todos,
            state.setup.user_data,
            state.turn_count,
            state.usage.total_tokens,
            state.usage.cost_usd,
            report,
            surroundings,
            self._jobs,
            surroundings,
            threads,
            self._links.subagents,
            memory_of(state.sections),
            StoredPast(self._shared.journal, self._session_id),
            self._links,
            person_answer,
            state.shell_folder,
            state.shell_exports,
        )

    def cancel_calls(self, effect: effects.CancelCalls) -> None:
        """Cancel calls; the task of each posts an input when it has ended."""
        for call_id in effect.call_ids:
            call = self._call(call_id)
            if call is not None:
                call.cancel()
            late = self.late.drop(call_id)
            if late is not None:
                self._mailbox.post(ToolStopped(call_id, late.attempt))

    def resume_subagents(self, effect: effects.ResumeSubagents) -> None:
        """Begin to resume sub-agents after a restart; the task of each posts an input when it has ended."""
        self._links.resume(effect.children, self.state, self._mailbox.post)

    def stop_subagents(self, effect: effects.StopSubagents) -> None:
        """Begin to stop sub-agents; the task of each posts an input when it has ended."""
        self._links.stop(effect.children)

    def _tool(self, name: str) -> Tool:
        """Return the code of the tool *name*; raise `UnknownTool` if the session does not have it."""
        attached = self.state.tools.get(name)
        if attached is None:
            raise UnknownTool.among(name, self.state.tools)
        return self._code.tools[name, attached.revision]

    # Time, questions, compaction

    def set_timer(self, effect: effects.SetTimer) -> None:
        """Set a timer that posts `TimerFired`; `later` says when, if it is that of a sub-agent's call."""
        due = self._shared.clock.trio_time(effect.due_ms)
        self._shared.timers.set((self._session_id, effect.timer), due, partial(self._fire, effect.timer, due))

    def later(self, timer: str, due: float) -> float:
        """Return when a timer set for *due* fires; that of a call with a sub-agent may fire later.

        The call's time limit does not count while requests of the sub-agent wait because a limit is near.
        """
        below = self._links.subagents
        if below is None or not timer.startswith(CALL_TIMER):
            return due
        child = next((agent.child for agent in self.state.subagents if call_timer(agent.call_id) == timer), "")
        clock = below.limits.purse.clocks.get(child)
        if clock is None:
            return due
        extended = due + clock.seconds
        return max(extended, self._shared.clock.now() + LOOK_AGAIN) if clock.runs else extended

    def _fire(self, timer: str, due: float) -> None:
        """Post `TimerFired`, or set the timer again if it is to fire later."""
        later = self.later(timer, due)
        if later > self._shared.clock.now():
            self._shared.timers.set((self._session_id, timer), later, partial(self._fire, timer, due))
        else:
            self._mailbox.post(TimerFired(timer))

    def clear_timer(self, effect: effects.ClearTimer) -> None:
        """Delete a timer."""
        self._shared.timers.clear((self._session_id, effect.timer))

    def carry_out(self, effect: effects.CarryOut) -> None:
        """Carry out a plugin's ask in a task of its own."""
        ask_id, request, code = effect.ask_id, effect.request, self._code
        ask = RunningAsk(ask_id, self._ask_ended)
        if self._asks is None:
            self._asks = {}
        self._asks[ask_id] = ask
        if isinstance(request, CallModel):
            body = partial(
                ask.call_model, request, effect.model, self.state, code.prices, partial(self.ask_model, ask_id)
            )
        elif isinstance(request, CallService):
            body = partial(ask.serve, request, code.services, self._session_id)
        else:
            body = partial(ask.run, request, self._tool, code.surroundings, partial(self._context_of_ask, effect.key))
        self._shared.tasks.start(ask, body, f"question {ask_id} ({self._session_id})")

    async def _context_of_ask(self, key: str, ask_id: str, tool: Tool) -> ToolContext:
        """Return the context of *tool*, which a plugin's ask runs under the idempotency key *key*."""
        threads = CallThreads(self._shared.threads, RunTool.__name__)
        ctx = self._context(ask_id, key, unheard, threads)
        deps = self._code.deps
        return ctx if deps is None else await deps.context_for(tool, ctx, self.state)

    def _ask_ended(self, ask: RunningAsk, input_: AnyInput) -> None:
        """Forget an ask whose task has ended, and post *input_* with its answer."""
        if self._asks is not None:
            self._asks.pop(ask.ask_id, None)
        self._mailbox.post(input_)

    def cancel_ask(self, effect: effects.CancelAsk) -> None:
        """Cancel the task of a plugin's ask."""
        ask = None if self._asks is None else self._asks.get(effect.ask_id)
        if ask is not None:
            ask.cancel()

    def start_compaction(self, effect: effects.StartCompaction) -> None:
        """Start a task that compacts the context."""
        post, code = self._mailbox.post, self._code
        words, find = self._screens() is None, partial(code.compactor_for, self.state)
        ask = partial(self.ask_model, effect.compaction_id)
        self._compaction = RunningCompaction(effect, post, ask, code.prices, find, words=words)
        self._shared.nursery.start_soon(self._compaction.run, name=f"compaction ({self._session_id})")

    def cancel_compaction(self, _: effects.CancelCompaction) -> None:
        """Cancel the task of the compaction."""
        if self._compaction is not None:
            self._compaction.scope.cancel()

    # The rest

    def report_start(self, effect: effects.ReportStart) -> None:
        """Report the start, or its failure, to the caller of `spawn`, and a return to the family of a sub-agent."""
        self.started.settle(effect.error)
        if effect.error is None:
            self.started = _STARTED
        above = self._links.above
        if effect.error is None and above is not None and above.beside is not None:
            above.beside.limits.is_back(self.state)

    def write_log(self, effect: effects.WriteLog) -> None:
        """Write a line of a plugin to the logger `agentrail.plugin`, at the level that it says."""
        write_line(self._session_id, effect)

    def close_session(self, _: effects.CloseSession) -> None:
        """Cancel all work of an ended session; the actor's loop ends by itself."""
        self.close()


_PERFORM: Final[Mapping[type[object], Callable[..., None]]] = {
    effects.ReportStart: EffectRunner.report_start,
    effects.StartRequest: EffectRunner.start_request,
    effects.CancelRequest: EffectRunner.cancel_request,
    effects.StartCall: EffectRunner.start_call,
    effects.ProbeCall: EffectRunner.start_call,
    effects.CancelCalls: EffectRunner.cancel_calls,
    effects.SetTimer: EffectRunner.set_timer,
    effects.ClearTimer: EffectRunner.clear_timer,
    effects.CarryOut: EffectRunner.carry_out,
    effects.CancelAsk: EffectRunner.cancel_ask,
    effects.StartCompaction: EffectRunner.start_compaction,
    effects.CancelCompaction: EffectRunner.cancel_compaction,
    effects.ResumeSubagents: EffectRunner.resume_subagents,
    effects.StopSubagents: EffectRunner.stop_subagents,
    effects.WriteLog: EffectRunner.write_log,
    effects.CloseSession: EffectRunner.close_session,
}
"""The method for each type of effect."""

_STOPS: Final = frozenset(
    {effects.CancelRequest, effects.CancelCalls, effects.CancelAsk, effects.CancelCompaction, effects.StopSubagents}
)
"""Effects that only stop something: doing one twice does no harm."""
