"""Plays a script against the pure machine and plugins, without Trio: thousands of turns a second.

Where a script gives no answer, the simulation gives a plain one: the model says "done", tools return "done", and what a
plugin asks for fails. Timers fire only when nothing else can happen. No tool is ever run, so none has to be written:
each tool that the script calls exists, unless `tools` of `simulate` lists others. `Watch` records what each plugin
decides at each hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

from agentrail.codec.plugin_states import storable
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.commands import (
    AbortSent,
    ApproveSent,
    CompactSent,
    PromptSent,
    RejectSent,
    RespondSent,
    SteerSent,
    StopSent,
    SwitchModelSent,
)
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    Arrival,
    AskSettled,
    CompactionEnded,
    SessionOpened,
    StreamCut,
    StreamEnded,
    StreamStalled,
    TimerFired,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.core.vocabulary.state import AttachedTool, Phase, Setup, State
from agentrail.errors import ModelError
from agentrail.hooks.actions import Action, Failed
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, in_order, refuse_twins, unkeyed
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import HOOK_NAMES, Hook
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import AnyPlugin
from agentrail.testing.impure_calls import refusing_if_collected
from agentrail.testing.scripted import Failing, Saying, ScriptStep, Stalling, say
from agentrail.testing.turns.script_steps import (
    Aborted,
    Approved,
    Compacted,
    Prompted,
    Raised,
    Rejected,
    Responded,
    Returned,
    Script,
    Steered,
    Stopped,
    Switched,
    Told,
    Waited,
)
from agentrail.testing.world.outstanding import Outstanding
from agentrail.testing.world.random_setups import Scene
from agentrail.values.content import Text
from agentrail.values.json import JsonObject
from agentrail.values.messages import Message, UserMessage
from agentrail.values.step_budget import Meter
from agentrail.values.stream import NOTHING_YET, Chunk, Failure, FailureKind, Partial, TextChunk
from agentrail.values.tools import ToolSpec, ok
from agentrail.values.untrusted_content import fit_failure
from agentrail.values.value import Value

Method = Callable[[Hook, object, Context], object]


class Decision(Value, gc=True):
    """What one plugin decided at one hook."""

    step: int
    """Number of the step in the trace, from 0."""
    plugin: str
    """Key of the plugin."""
    hook: Hook
    """The hook that the plugin was called with."""
    before: object
    """The state of the plugin before the call."""
    answer: object
    """What the plugin returned, or the exception that it raised."""

    @property
    def action(self) -> Action[object] | None:
        """The action that the plugin returned; `None` if it raised, or returned something else."""
        answer: object = self.answer
        return cast("Action[object]", answer) if isinstance(answer, Action) else None


class Watch:
    """Wraps plugins, and records their decisions in `decisions`, with the number of the step (`step`)."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.step = 0

    def over(self, key: str, plugin: AnyPlugin) -> AnyPlugin:
        """Return a wrapper of *plugin* with the same behaviour, whose decisions are recorded here."""
        return cast("AnyPlugin", _Watched(self, key, plugin))

    def forget(self, step: int) -> None:
        """Forget the decisions of *step* and of later steps."""
        self.decisions = [decision for decision in self.decisions if decision.step < step]

    def asks(self, key: str, method: Method, hook: Hook, state: object, ctx: Context) -> object:
        """Call *method* of a plugin with a hook; record its result or exception."""
        try:
            answer = method(hook, state, ctx)
        except Exception as error:
            self.decisions.append(Decision(self.step, key, hook, state, error))
            raise
        self.decisions.append(Decision(self.step, key, hook, state, answer))
        return answer


class _Watched:
    """Wrapper of a plugin; calls of its hooks are recorded, and all other attributes are the plugin's."""

    def __init__(self, watch: Watch, key: str, plugin: AnyPlugin) -> None:
        self._watch = watch
        self._key = key
        self._plugin = plugin

    def __getattr__(self, name: str) -> object:
        attribute: object = getattr(self._plugin, name)
        if name not in HOOK_NAMES:
            return attribute
        return partial(self._watch.asks, self._key, cast("Method", attribute))


START: Final = 1_000_000
"""The time at which a simulation begins, in milliseconds."""

MOST: Final = 2_000
"""How many steps may follow from one step; a session that has not come to rest by then counts as endless."""

DONE: Final = say("done").response
RETURNED: Final = ok("done")
NOBODY: Final = Failed("the script does not say what comes of it")


class EndlessError(AssertionError):
    """A simulated session did not come to rest after `MOST` steps beyond its script."""

    def __init__(self, script_step: object) -> None:
        super().__init__(
            f"{MOST:,} steps after {script_step} the session has not come to rest: something starts it again and again"
        )


class UnknownScriptStepError(TypeError):
    """An element of a script is not a step."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"a script for `simulate` is made of steps such as `prompt(…)` and `say(…)`; this is {value!r:.80}"
        )


class Happened(NamedTuple):
    """One step of a simulated session."""

    script_step: int
    """Number of the step that the step belongs to, from 0; -1 if it came before the first step."""
    plain: bool
    """Whether the input was a plain answer of the simulation; if not, the script gave it."""
    before: State
    """The state of the session before the step."""
    arrival: Arrival
    """The input, with its time."""
    step: Step
    """The result of the step: the new state, events and effects."""


class Simulation:
    """Plays a script against one session: has its state, its outstanding work, and the steps so far."""

    def __init__(self, scene: Scene, script: Script, *, as_given: bool = False, watch: Watch | None = None) -> None:
        self.out: Outstanding = Outstanding()
        self.hook_runner = LiveRunner(storable)
        self.now: int = START
        self.happened: list[Happened] = []
        self.script_step = -1
        self.void: list[int] = []
        keyed = [unkeyed(plugin) for plugin in scene.plugins]
        refuse_twins([key for key, _ in keyed])
        for key, plugin in keyed:
            self.hook_runner.attach(key, 0, plugin if watch is None else watch.over(key, plugin))
        attached_plugins = tuple(_attached_plugin(key, plugin) for key, plugin in keyed)
        if not as_given:
            attached_plugins = tuple(attached_plugins[index] for index in in_order(attached_plugins))
        tools: dict[str, AttachedTool] = {}
        for spec in scene.tools:
            self.hook_runner.tool(spec.name, 0, _anything)
            tools[spec.name] = AttachedTool(spec, 0)
        setup = Setup(options=scene.options, user_data=scene.user_data)
        self.state: State = State("s", setup, scene.model, tools=tools, plugins=attached_plugins)
        self.script = script
        self.watch = watch

    def play(self) -> None:
        """Open the session and play each step of the script; then send default answers until the session rests.

        Steps that found nothing to do are noted in `void`.
        """
        self.send(SessionOpened())
        self._settle(lambda: False)
        for number, script_step in enumerate(self.script):
            self.script_step = number
            if self.state.phase is Phase.ENDED or not self._play(script_step):
                self.void.append(number)
        self._settle(lambda: False)

    def send(self, input_: AnyInput, *, plain: bool = False) -> None:
        """Make a step with *input_*; *plain* marks it as a default answer, which is not in the script."""
        if self.watch is not None:
            self.watch.step = len(self.happened)
        self.out.answered(input_)
        old = self.state
        arrival = Arrival(input_, self.now)
        step_ = refusing_if_collected(lambda: step(old, arrival, self.hook_runner))
        for effect in step_.effects:
            self.out.perform(effect, self.now)
        self.state = step_.state
        self.happened.append(Happened(self.script_step, plain, old, arrival, step_))

    # The steps

    def _play(self, script_step: ScriptStep) -> bool:
        """Play *script_step*; return false if it found nothing to act on, such as no running call to end."""
        match script_step:
            case Saying() | Failing() | Stalling():
                return self._answers(script_step)
            case Returned() | Raised():
                return self._tool_ends(script_step)
            case Approved() | Rejected() | Responded():
                return self._decides(script_step)
            case Told(answer=answer):
                if not self._comes_to(lambda: bool(self.out.live_asks)):
                    return False
                self.send(AskSettled(self.out.live_asks[0], answer))
            case Waited(seconds=seconds):
                self._wait(self.now + round(1000 * seconds))
            case Prompted(text=text, at_once=at_once):
                if not at_once:
                    self._settle(lambda: False)
                self.send(PromptSent((Text(text),)))
            case _:
                self.send(self._command(script_step))
        return True

    def _command(self, script_step: ScriptStep) -> AnyInput:
        match script_step:
            case Steered(text=text, when=when):
                return SteerSent(text, when, self._partial() if when == "now" else NOTHING_YET)
            case Aborted(reason=reason, kill_tools=kill_tools, clear_queue=clear_queue):
                return AbortSent(reason, kill_tools, clear_queue, self._partial())
            case Switched(model=model):
                return SwitchModelSent(model)
            case Compacted():
                return CompactSent()
            case Stopped(reason=reason):
                return StopSent(reason, self._partial())
            case _:
                raise UnknownScriptStepError(script_step)

    def _answers(self, script_step: Saying | Failing | Stalling) -> bool:
        if not self._comes_to(lambda: bool(self.out.live_requests)):
            return False
        request_id = self.out.live_requests[0]
        if isinstance(script_step, Saying):
            self.send(StreamEnded(request_id, script_step.response))
            return True
        if script_step.chunks and not self.out.requests[request_id].began:
            self.out.requests[request_id].began = True
            self.state = begun(self.state, request_id)
        if isinstance(script_step, Failing):
            self.send(StreamCut(request_id, said(script_step.chunks), told(script_step.error)))
        else:
            self.send(StreamStalled(request_id, 30.0, said(script_step.chunks)))
        return True

    def _tool_ends(self, script_step: Returned | Raised) -> bool:
        if not self._comes_to(lambda: bool(self.out.live_calls)):
            return False
        start = self.out.calls[self.out.live_calls[0]].start
        if isinstance(script_step, Returned):
            self.send(ToolReturned(start.call_id, start.attempt, script_step.result))
        else:
            self.send(ToolRaised(start.call_id, start.attempt, script_step.error))
        return True

    def _decides(self, script_step: Approved | Rejected | Responded) -> bool:
        def waiting() -> list[str]:
            calls = self.state.waiting_calls
            if isinstance(script_step, Responded):
                return [call.question.ref for call in calls if call.question is not None]
            return [call.hold.approval_id for call in calls if call.hold is not None]

        if not self._comes_to(lambda: bool(waiting())):
            return False
        ref = waiting()[0]
        match script_step:
            case Approved(args=args, always=always):
                self.send(ApproveSent(ref, args, always))
            case Rejected(reason=reason, auto_resume=auto_resume):
                self.send(RejectSent(ref, reason, auto_resume))
            case Responded(text=text):
                self.send(RespondSent(ref, text))
        return True

    def _partial(self) -> Partial:
        live = self.out.live_requests
        return Partial("so far ") if live and self.out.requests[live[0]].began else NOTHING_YET

    # Default answers, for work that the script does not answer

    def _comes_to(self, is_reached: Callable[[], bool]) -> bool:
        """Send default answers until *is_reached* is true. If it does not come true, undo them and return `False`."""
        if is_reached():
            return True
        saved = self.state, self.out.copy(), self.now, len(self.happened)
        if self._settle(is_reached):
            return True
        self.state, self.out, self.now, length = saved
        del self.happened[length:]
        if self.watch is not None:
            self.watch.forget(length)
        return False

    def _settle(self, is_reached: Callable[[], bool]) -> bool:
        """Send default answers until *is_reached* is true or nothing is outstanding; return whether it came true."""
        for _ in range(MOST):
            if is_reached():
                return True
            plain = self._plain()
            if plain is None:
                return False
            self.send(plain, plain=True)
        raise EndlessError("the start" if self.script_step < 0 else self.script[self.script_step])

    def _plain(self) -> AnyInput | None:
        """Return the default answer to one outstanding effect: a call, else a request, a plugin's ask, a compaction.

        If none is outstanding while a turn is open, the next timer fires. `None` if there is nothing to answer.
        """
        out = self.out
        for call_id, call in out.calls.items():
            if call.cancelled:
                return ToolStopped(call_id, call.start.attempt)
            return ToolReturned(call_id, call.start.attempt, RETURNED)
        for request_id, request in out.requests.items():
            if not request.cancelled:
                return StreamEnded(request_id, DONE)
        for ask_id, ask in out.asks.items():
            if not ask.cancelled:
                return AskSettled(ask_id, NOBODY)
        for name, compaction in out.compactions.items():
            if not compaction.cancelled:
                return _compacted(name, compaction.start.messages)
        if self.state.phase in (Phase.IDLE, Phase.ENDED) or not out.timers:
            return None
        return self._fire()

    def _fire(self) -> TimerFired:
        timer = min(self.out.timers, key=lambda name: self.out.timers[name])
        self.now = max(self.now, self.out.timers.pop(timer))
        return TimerFired(timer)

    def _wait(self, until: int) -> None:
        for _ in range(MOST):
            if min(self.out.timers.values(), default=until + 1) > until:
                self.now = until
                return
            self.send(self._fire())
        raise EndlessError(self.script[self.script_step])


MAX_ATTACHED: Final = 2_000
"""The most attached plugins that are cached; with more, the cache is emptied."""

_ATTACHED: Final[dict[tuple[str, int], tuple[AnyPlugin, AttachedPlugin]]] = {}


def _attached_plugin(key: str, plugin: AnyPlugin) -> AttachedPlugin:
    """Return *plugin* as an attached plugin; cached, because reading its options takes as long as playing a turn."""
    remembered = _ATTACHED.get((key, id(plugin)))
    if remembered is not None and remembered[0] is plugin:
        return remembered[1]
    if len(_ATTACHED) >= MAX_ATTACHED:
        _ATTACHED.clear()
    attached = attached_plugin(key, plugin)
    _ATTACHED[key, id(plugin)] = plugin, attached
    return attached


def called(script: Script) -> list[ToolSpec]:
    """Return a tool without schema for each tool name in the calls of *script*."""
    calls = (call for script_step in script if isinstance(script_step, Saying) for call in script_step.response.calls)
    return [ToolSpec(name, name) for name in dict.fromkeys(call.name for call in calls)]


def told(error: Exception) -> Failure:
    """Return the exception *error* of a model as the `Failure` that the machine gets."""
    if not isinstance(error, ModelError):
        return Failure(FailureKind.PERMANENT, type(error).__name__, str(error))
    return fit_failure(error)


def said(chunks: Iterable[Chunk]) -> Partial:
    """Return the partial response after *chunks* were streamed: their text."""
    return Partial("".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)))


def _compacted(name: str, messages: Sequence[Message]) -> CompactionEnded:
    """Return the end of a compaction that keeps the last user message and all after it, and sums up the rest."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    messages_ = tuple(messages[starts[-1] :]) if starts else tuple(messages)
    return CompactionEnded(name, messages_, len(messages) - len(messages_), "shorter")


def _anything(_: JsonObject, _meter: Meter) -> None:
    """No-op: a validator that accepts any arguments, because simulated tools are never run."""
