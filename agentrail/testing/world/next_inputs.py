"""Lists the inputs that could come next to a session: results of outstanding effects, and any call of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, get_args

from agentrail.core.machine.endings import TURN_TIMER
from agentrail.core.vocabulary.commands import (
    AbortSent,
    ApproveSent,
    AttachPluginSent,
    ChangeToolsSent,
    Command,
    DetachPluginSent,
    DisallowSent,
    LabelSent,
    PromptSent,
    RejectSent,
    RespondSent,
    ResultSent,
    ResumeSent,
    SteerSent,
    StopSent,
    SuspendSent,
    SwitchModelSent,
    TraceSent,
    UpdatePluginSent,
    WithdrawSent,
)
from agentrail.core.vocabulary.effects import ProbeCall, StartCall, StartCompaction
from agentrail.core.vocabulary.inputs import (
    ActorRestarted,
    AnyInput,
    AskSettled,
    CallProbed,
    CallsEnded,
    CompactionEnded,
    CompactionFailed,
    CrashedTooOften,
    ElsewhereUsed,
    HooksWereSlow,
    SessionReturned,
    SessionWoke,
    SleepDue,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentEnded,
    SubagentReported,
    SubagentStarted,
    TimerFired,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.core.vocabulary.state import Phase, State
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.hooks.attachments import AttachedPlugin, class_name
from agentrail.hooks.plugin import AnyPlugin
from agentrail.testing.probe_plugins import BROUGHT, Refuser
from agentrail.testing.world.any_command import draw_command
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.outstanding import AgentOut, Outstanding
from agentrail.testing.world.random_results import (
    draw_answer,
    draw_failure,
    draw_partial,
    draw_parts,
    draw_response,
    draw_result,
    draw_usage,
    shortened,
)
from agentrail.testing.world.random_setups import ANSWER, DEFERRED, TOOLS, draw_plugin
from agentrail.values.events.life import AgentStart
from agentrail.values.events.people import ApprovalRequired
from agentrail.values.events.tools import ToolCalls
from agentrail.values.json import EMPTY, FrozenObject
from agentrail.values.stream import NOTHING_YET, ModelRequest, Partial
from agentrail.values.tools import EffectClass, NotStarted, Probed, Unknown, err, ok
from agentrail.values.value import Value

Teach = Callable[[str, AnyPlugin], AttachedPlugin]
"""Function that gives the hook runner the code of a plugin under a key; returns the attached plugin."""


class Move(NamedTuple):
    """An input that could come next."""

    weight: int
    """Weight with which the move is drawn, beside the others."""
    kind: type[Value]
    """Class of the input."""
    make: Callable[[Choose], AnyInput]
    """Function that draws the fields of the input."""
    apt: bool = True
    """False if the move is possible but will change little, such as approving an unknown id."""


OTHER_ARGS: Final = (
    None,
    FrozenObject({"path": "edited"}),
    FrozenObject({"path": "secret"}),
    FrozenObject({"path": 1}),
)
KEYS: Final = ("A", "B", "C", "D", "E")

DRAWN: Final = 8
"""How many plugins are drawn for one of the class whose options are to change; if none is, another class is given."""


OF_THE_ACTOR: Final = (
    SuspendSent(),
    ResumeSent(),
    TraceSent(),
    ActorRestarted("KeyError"),
    CrashedTooOften("KeyError", "PromptSent"),
    SessionWoke(),
)
"""Inputs that may come at any time, and change little or nothing."""


COMMANDS: Final[tuple[type[Command], ...]] = get_args(Command)

BUSY: Final = 16
LATE: Final = 1


def results(out: Outstanding, *, slow: bool = False) -> Iterator[Move]:
    """Yield the inputs that outstanding effects could cause; cancelled work may still cause some.

    With *slow*, a report that hooks were slow may come too.
    """
    if slow:
        yield Move(LATE, HooksWereSlow, partial(_given, HooksWereSlow(("A",), 70)))
    yield from _of_requests(out)
    yield from _of_calls(out)
    yield from _of_agents(out)
    for ask_id, ask in out.asks.items():
        yield Move(LATE if ask.cancelled else BUSY, AskSettled, partial(_settled, ask_id))
    for name, compaction in out.compactions.items():
        weight = LATE if compaction.cancelled else BUSY
        yield Move(weight, CompactionEnded, partial(_compacted, compaction.start))
        yield Move(LATE, CompactionFailed, partial(_given, CompactionFailed(name, "it broke")))
    if out.timers:
        first = min(out.timers, key=lambda timer: out.timers[timer])
        yield Move(BUSY // 2, TimerFired, partial(_fired, first, out))
    for late in out.fired_late:
        yield Move(LATE, TimerFired, partial(_given, TimerFired(late)))


def _of_requests(out: Outstanding) -> Iterator[Move]:
    for request_id, request in out.requests.items():
        weight = LATE if request.cancelled else BUSY
        yield Move(weight, StreamEnded, partial(_ended, request_id, request.request))
        yield Move(max(1, weight // 3), StreamCut, partial(_cut, request_id, request.began))
        yield Move(max(1, weight // 4), StreamStalled, partial(_stalled, request_id, request.began))


def _of_calls(out: Outstanding) -> Iterator[Move]:
    for call_id, call in out.calls.items():
        attempt = call.start.attempt
        if out.asked_for(call_id) is not None:
            continue
        if call.cancelled:
            yield Move(BUSY // 3, ToolStopped, partial(_given, ToolStopped(call_id, attempt)))
        else:  # `abort` cancels calls directly, so they may stop before the session handles the abort
            yield Move(LATE, ToolStopped, partial(_given, ToolStopped(call_id, attempt)))
        if isinstance(call.start, ProbeCall):
            yield Move(BUSY if call.cancelled else 2 * BUSY, CallProbed, partial(_probed, call.start))
            continue
        yield Move(LATE if call.cancelled else BUSY, ToolReturned, partial(_returned, call.start))
        yield Move(
            LATE if call.cancelled else BUSY // 2, ToolRaised, partial(_given, ToolRaised(call_id, attempt, "Oops"))
        )
    started = [call for call_id, call in out.calls.items() if out.asked_for(call_id) is None]
    several = [call.start for call in started if isinstance(call.start, StartCall)]
    if several:
        yield Move(BUSY // 2 if len(several) > 1 else LATE, CallsEnded, partial(_ended_at_once, several))


def _ended_at_once(several: list[StartCall], choose: Choose) -> AnyInput:
    """Draw the end of some of *several* calls, in any order and of any kind."""
    open_calls = list(several)
    ended: list[ToolReturned | ToolRaised | ToolStopped] = []
    while open_calls and (not ended or choose.percent(70)):
        start = choose.pick(open_calls)
        open_calls.remove(start)
        ways: tuple[ToolReturned | ToolRaised | ToolStopped, ...] = (
            ToolReturned(start.call_id, start.attempt, draw_result(choose, start.name)),
            ToolRaised(start.call_id, start.attempt, "Oops"),
            ToolStopped(start.call_id, start.attempt),
        )
        ended.append(ways[0] if choose.percent(60) else choose.pick(ways))
    return CallsEnded(tuple(ended))


def _of_agents(out: Outstanding) -> Iterator[Move]:
    """Yield inputs about sub-agents.

    Any call may start one, and the input about its start may come after the one of its end.
    """
    free = [call_id for call_id in out.calls if not any(agent.call_id == call_id for agent in out.agents.values())]
    if free:
        yield Move(BUSY // 4, SubagentStarted, partial(_agent_started, out, free))
    if out.agents:
        yield Move(LATE, ElsewhereUsed, _elsewhere)
    for child, agent in out.agents.items():
        yield Move(BUSY // 3, SubagentReported, partial(_reported, child, agent))
        yield Move(BUSY if agent.cancelled else BUSY // 3, SubagentEnded, partial(_over, child))


def _agent_started(out: Outstanding, free: list[str], choose: Choose) -> AnyInput:
    call_id = choose.pick(free)
    child = f"child.{call_id}.{out.calls[call_id].start.attempt}"
    return SubagentStarted(child, call_id, "helper", "help", choose.percent(40))


def _reported(child: str, agent: AgentOut, choose: Choose) -> AnyInput:
    required = ApprovalRequired(f"{child}:a1", "c1", "write", EMPTY, "may it?", "A", 0, None, path=("s", agent.call_id))
    events = choose.pick(((), (ToolCalls(1),), (AgentStart("p1"), required), (required,)))
    used = agent.used if choose.percent(50) else agent.used.plus(draw_usage(choose))
    waits = choose.percent(40)
    works = not waits or bool(events)
    return SubagentReported(child, events, agent.heard + len(events), used, waits, works=works)


def _elsewhere(choose: Choose) -> AnyInput:
    return ElsewhereUsed(draw_usage(choose))


def _over(child: str, choose: Choose) -> AnyInput:
    return SubagentEnded(child, err("it failed") if choose.percent(30) else ok("done"))


def _given(what: AnyInput, _: Choose) -> AnyInput:
    return what


def _settled(ask_id: str, choose: Choose) -> AnyInput:
    return AskSettled(ask_id, draw_answer(choose), draw_usage(choose))


def _compacted(start: StartCompaction, choose: Choose) -> AnyInput:
    messages = start.messages if choose.percent(20) else shortened(start.messages, choose)
    if choose.percent(5):
        messages = start.messages[1:]
    return CompactionEnded(start.compaction_id, tuple(messages), len(start.messages) - len(messages), "shorter")


def _ended(request_id: str, request: ModelRequest, choose: Choose) -> AnyInput:
    return StreamEnded(request_id, draw_response(choose, request))


def _cut(request_id: str, began: bool, choose: Choose) -> AnyInput:
    return StreamCut(request_id, draw_partial(choose, began), draw_failure(choose))


def _stalled(request_id: str, began: bool, choose: Choose) -> AnyInput:
    return StreamStalled(request_id, 30.0, draw_partial(choose, began))


def _probed(start: ProbeCall, choose: Choose) -> AnyInput:
    outcomes: tuple[Probed, ...] = (ok("it was done"), err("it was done in vain"), NotStarted(), Unknown())
    outcome = choose.pick(outcomes)
    return CallProbed(start.call_id, start.attempt, outcome)


def _returned(start: StartCall, choose: Choose) -> AnyInput:
    return ToolReturned(start.call_id, start.attempt, draw_result(choose, start.name))


# Calls of users


def calls(state: State, out: Outstanding, teach: Teach) -> Iterator[Move]:
    """Yield the commands that a user could send now, including ones that will be refused."""
    by_hand = [*_calls(state, out, teach)]
    yield from by_hand
    drawn = {move.kind for move in by_hand}
    ids = [*(prompt.ref for prompt in state.queue), *(call.call_id for call in state.waiting_calls)]
    for kind in COMMANDS:
        if kind not in drawn:
            yield Move(1, kind, partial(draw_command, kind, ids))


def _calls(state: State, out: Outstanding, teach: Teach) -> Iterator[Move]:
    """Yield the commands that are drawn by hand, because their arguments must fit the state."""
    free = state.phase is Phase.IDLE and state.turn is None
    calls_now = () if state.batch is None else state.batch.calls
    running = [c.spec for c in calls_now if c.spec is not None and c.status is CallStatus.RUNNING]
    goes_on = any(spec.immune for spec in running)
    yield Move((60 if state.lingering_calls else 20) if free else 3, PromptSent, _prompt)
    yield Move(3, SteerSent, partial(_steer, out))
    yield Move(BUSY // 2 if goes_on else 2, AbortSent, partial(_abort, state, out))
    approval_ids = [c.hold.approval_id for c in state.waiting_calls if c.hold is not None]
    questions = [c.question for c in state.waiting_calls if c.question is not None]
    asking = [question.ref for question in questions if not question.is_for_result]
    awaited = [question.ref for question in questions if question.is_for_result]
    stopped = [f"{state.session_id}:{doubt.name_of_call}" for doubt in state.in_doubt_calls[-1:]]
    yield Move(
        10 if approval_ids else 1, ApproveSent, partial(_approve, [*approval_ids, *stopped]), apt=bool(approval_ids)
    )
    yield Move(
        4 if approval_ids else 1, RejectSent, partial(draw_command, RejectSent, approval_ids), apt=bool(approval_ids)
    )
    yield Move(16 if asking else 1, RespondSent, partial(draw_command, RespondSent, asking), apt=bool(asking))
    yield Move(16 if awaited else 1, ResultSent, partial(_result, awaited), apt=bool(awaited))
    yield Move(1, SwitchModelSent, _switch)
    yield Move(3 if approval_ids else 1, ChangeToolsSent, partial(_change_tools, state))
    yield Move(1, UpdatePluginSent, partial(_update, state, teach))
    yield Move(1, AttachPluginSent, partial(_attach, state, teach))
    yield Move(1, DetachPluginSent, partial(draw_command, DetachPluginSent, KEYS))
    yield Move(
        2 if state.queue else 1,
        WithdrawSent,
        partial(draw_command, WithdrawSent, [prompt.ref for prompt in state.queue]),
    )
    pairs = sorted(state.approved_always)
    yield Move(2 if pairs else 1, DisallowSent, partial(_disallow, pairs))
    yield Move(1, LabelSent, _label)
    yield Move(5 if state.lingering_calls else 1, StopSent, partial(_stop, out))
    if not state.is_starting:
        probed = any(spec.effect is EffectClass.CHECKABLE for spec in running)
        yield Move(4 * BUSY if probed else BUSY // 2 if out.calls else 2, SessionReturned, partial(_come_back, state))
    yield Move(3 if free else LATE, SleepDue, partial(_given, SleepDue()))
    for input_ in OF_THE_ACTOR:
        yield Move(LATE, type(input_), partial(_given, input_))


def _result(refs: list[str], choose: Choose) -> AnyInput:
    ref = choose.pick(refs) if refs and not choose.percent(5) else "unknown"
    return ResultSent(ref, err("not there") if choose.percent(30) else ok("made elsewhere"))


def _partial(out: Outstanding, choose: Choose) -> Partial:
    for request_id in out.live_requests:
        return draw_partial(choose, out.requests[request_id].began)
    return NOTHING_YET


def _fired(timer: str, out: Outstanding, choose: Choose) -> AnyInput:
    return TimerFired(timer, _partial(out, choose) if timer == TURN_TIMER else NOTHING_YET)


def _prompt(choose: Choose) -> AnyInput:
    return PromptSent(draw_parts(choose), returns=ANSWER if choose.percent(8) else EMPTY)


def _steer(out: Outstanding, choose: Choose) -> AnyInput:
    when = choose.pick(("gap", "now"))
    return SteerSent("rather that", when, _partial(out, choose) if when == "now" else NOTHING_YET)


def _abort(state: State, out: Outstanding, choose: Choose) -> AnyInput:
    reason = choose.pick((None, "enough"))
    kill = choose.weighted(((3, "killable"), (4 if out.calls else 1, "all"), (3, "none")))
    open_turn = "" if state.turn is None else state.turn.ref
    turn = choose.weighted(((8, ""), (1, open_turn), (1, "p0")))
    return AbortSent(reason, kill, choose.percent(30), _partial(out, choose), turn)


def _one_of(names: list[str], choose: Choose) -> str:
    return choose.pick(names) if names and not choose.percent(5) else "unknown"


def _approve(approval_ids: list[str], choose: Choose) -> AnyInput:
    args = choose.weighted(((6, OTHER_ARGS[0]), (2, OTHER_ARGS[1]), (1, OTHER_ARGS[2]), (1, OTHER_ARGS[3])))
    return ApproveSent(_one_of(approval_ids, choose), args, choose.percent(20), choose.percent(70))


def _switch(choose: Choose) -> AnyInput:
    return SwitchModelSent(f"model{choose.below(3)}", choose.pick((EMPTY, FrozenObject({"effort": 1}))))


def _change_tools(state: State, choose: Choose) -> AnyInput:
    waits = {call.name for call in state.waiting_calls}
    tools = (*TOOLS, *DEFERRED, BROUGHT)
    attach = tuple(spec for spec in tools if choose.percent(60 if spec.name in waits else 25))
    detach = choose.some(tuple(spec.name for spec in tools), 15)
    revision = max((tool.revision for tool in state.tools.values()), default=0) + 1
    return ChangeToolsSent(attach, detach, choose.percent(60), revision)


def _update(state: State, teach: Teach, choose: Choose) -> AnyInput:
    key = choose.pick(KEYS)
    class_by_key = {attached.key: attached.plugin for attached in state.plugins}
    drawn = [draw_plugin(choose, key).plugin for _ in range(DRAWN)]
    same = [plugin for plugin in drawn if class_name(plugin) == class_by_key.get(key)]
    attached = teach(key, (same or drawn)[0])
    return UpdatePluginSent(attached, FrozenObject({"level": choose.below(3)}))


LABELS: Final = ("blue", "green", "red")


def _attach(state: State, teach: Teach, choose: Choose) -> AnyInput:
    free = [key for key in KEYS if key not in {attached.key for attached in state.plugins}]
    key = choose.pick(free or KEYS)
    plugin = Refuser() if choose.percent(10) else draw_plugin(choose, key).plugin
    return AttachPluginSent(teach(key, plugin))


def _disallow(pairs: Sequence[tuple[str, str]], choose: Choose) -> AnyInput:
    return DisallowSent(*choose.pick((*pairs, ("write", "w"))))


def _label(choose: Choose) -> AnyInput:
    return LabelSent((choose.pick(LABELS),), (choose.pick(LABELS),), choose.pick((None, "", "a title")))


def _come_back(state: State, choose: Choose) -> AnyInput:
    removed = choose.some(tuple(state.tools), 10)
    without = choose.some(tuple(change.key for change in state.plugin_changes), 30)
    lost = choose.pick(((), ("the MCP server `files`",)))
    return SessionReturned(1, state.plugins, (), removed, 0, without, lost, choose.percent(40))


def _stop(out: Outstanding, choose: Choose) -> AnyInput:
    return StopSent(partial=_partial(out, choose))
