"""A session that a test drives one input at a time, and the comparison of whole steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from attrs import frozen

from agentrail import Context, Options, Plugin, State
from agentrail.codec.plugin_states import storable
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.effects import AnyEffect, ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import SessionOpened, StreamEnded
from agentrail.core.vocabulary.state import AttachedTool
from agentrail.core.vocabulary.tool_calls import Batch, Call
from agentrail.events import Envelope, Event
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, brought_tools, in_order
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.ruling import UNRULED
from agentrail.models import FrozenObject, Json, JsonObject, Partial, Response, StopReason, Text, ToolCall
from agentrail.plugins import AnyPlugin, Hook
from agentrail.tools import EffectClass, ToolResult, ToolSpec, ok
from agentrail.tools.answer_forms import misfit
from agentrail.values.stream import NOTHING_YET
from agentrail.values.value import Value
from tests.kit import EMPTY, AnyInput, Arrival, PromptSent, Ruling, Setup, TimerFired, ToolReturned

NOW: Final = 1_000_000
"""Time of every input in milliseconds, unless a test lets time pass."""

LOOK: Final = ToolSpec("look", "reads a file", effect=EffectClass.PURE, subject="path")
EDIT: Final = ToolSpec("edit", "changes a file", requires=frozenset({"files"}))
KEEP: Final = ToolSpec("keep", "goes on whatever happens", immune=True)
SOLO: Final = ToolSpec("solo", "runs alone", parallel=False, effect=EffectClass.CHECKABLE)
STORE: Final = ToolSpec("store", "stores a value", effect=EffectClass.IDEMPOTENT)
TOOLS: Final = (LOOK, EDIT, KEEP, SOLO, STORE)

UNUSABLE: Final = "nobody's"
"""A name that is not a usable model on the bench."""

Answered: TypeAlias = object
Answering: TypeAlias = Callable[[Hook, object, Context], Answered]


def plug(
    name: str = "P",
    *,
    critical: bool = False,
    priority: int = 900,
    first: object = None,
    **answers: object,
) -> AnyPlugin:
    """Return a plugin that gives one answer at each named hook: an action, or a function of hook, state and context."""
    body: dict[str, object] = {
        "critical": critical,
        "priority": priority,
        **{hook_name: _method(_Script(first, answers), hook_name) for hook_name in ("init", *answers)},
    }
    cls: type[AnyPlugin] = type(name, (Plugin,), body)
    return cls()


class _Script:
    """The answers of a plugin; its functions may note for a test what they are asked, which a plugin itself may not."""

    def __init__(self, first: object, answers: Mapping[str, object]) -> None:
        self.first = first
        self.answers = answers

    def say(self, hook_name: str, *shown: object) -> object:
        if hook_name == "init":
            return self.first
        answer = self.answers[hook_name]
        if callable(answer) and not isinstance(answer, type | Value):
            return cast("Callable[..., object]", answer)(*shown)
        return answer


def _method(script: _Script, hook_name: str) -> Callable[..., object]:
    return lambda _self, *shown: script.say(hook_name, *shown)


def fits(args: JsonObject, _: object = None) -> str | None:
    """Check arguments for every tool on the bench: all fit, except those with an argument `bad`."""
    return None if "bad" not in args else "$.bad: not wanted"


def usable(model: str, *_: object) -> str | None:
    """Return why a model cannot be used, or `None`: all can be used except `UNUSABLE`."""
    return None if model != UNUSABLE else f"there is no model `{model}`"


@frozen
class Now:
    """In a list of expected events: the turn and the round of all events after this entry."""

    turn: int
    round: int


@frozen
class Got:
    """A step, with the state before it and the input."""

    before: State
    arrival: Arrival
    step: Step

    @property
    def events(self) -> list[Event]:
        return [envelope.event for envelope in self.step.events]

    @property
    def rulings(self) -> tuple[Ruling, ...]:
        """The rulings of the step, without what each plugin answered (`test_answers` checks that)."""
        return _unanswered(self.step).rulings

    def expect_only(
        self,
        *,
        answer: Answer | None = None,
        effects: Sequence[AnyEffect] = (),
        events: Sequence[Event | Now] = (),
        rulings: Sequence[Ruling] = (),
        ids: int = 0,
        **changes: object,
    ) -> None:
        """Check that the step did this and nothing else; *ids* is how many ids it used."""
        old = self.before
        text = self._numbered(events)
        changes.setdefault("timers", self._timers(effects))
        state = old.but(last_seq=old.last_seq + len(text), last_id=old.last_id + ids, **changes)
        demand_same(Step(state, tuple(effects), text, tuple(rulings), answer), self.step)

    def expect_nothing(self) -> None:
        """Check that the step changed nothing, and had no effects and events."""
        self.expect_only()

    def _numbered(self, events: Sequence[Event | Now]) -> tuple[Envelope, ...]:
        old = self.before
        now = Now(old.turn_count if old.turn is not None else 0, old.round)
        envelopes: list[Envelope] = []
        for event in events:
            if isinstance(event, Now):
                now = event
            else:
                seq = old.last_seq + len(envelopes) + 1
                envelopes.append(
                    Envelope(old.session_id, seq, 0, self.arrival.at, now.turn, now.round, event, old.setup.path)
                )
        return tuple(envelopes)

    def _timers(self, effects: Sequence[AnyEffect]) -> tuple[tuple[str, int], ...]:
        """Return the timers that are set after *effects*, in the order in which they were set."""
        timers = dict(self.before.timers)
        given_input = self.arrival.input
        if isinstance(given_input, TimerFired):
            timers.pop(given_input.timer, None)
        for effect in effects:
            if isinstance(effect, SetTimer):
                timers.pop(effect.timer, None)
                timers[effect.timer] = effect.due_ms
            elif isinstance(effect, ClearTimer):
                del timers[effect.timer]
        return tuple(timers.items())


class Bench:
    """A session whose inputs a test gives by hand."""

    def __init__(
        self,
        *plugins: AnyPlugin,
        options: Options | None = None,
        tools: tuple[ToolSpec, ...] = TOOLS,
        opened: bool = True,
        user_data: JsonObject = EMPTY,
    ) -> None:
        self.hook_runner = LiveRunner(storable, usable, misfit=misfit)
        self.now = NOW
        self.revision = 0
        self.got: list[Got] = []
        self.moves: list[Arrival | None] = []  # the inputs, with `None` where a response began
        for spec in tools:
            self.hook_runner.tool(spec.name, 0, fits)
        attached_plugins = tuple(self.attach(plugin) for plugin in plugins)
        self.first = self.state = State(
            "s",
            Setup(options=options or Options(), user_data=user_data),
            "m",
            tools={spec.name: AttachedTool(spec, 0) for spec in tools},
            plugins=tuple(attached_plugins[index] for index in in_order(attached_plugins)),
        )
        if opened:
            self.send(SessionOpened())

    def attach(self, plugin: AnyPlugin, revision: int = 0) -> AttachedPlugin:
        """Let the hook runner know a plugin's code, and return the attached plugin."""
        self.hook_runner.attach(plugin.key, revision, plugin)
        for tool in brought_tools(plugin):
            self.hook_runner.tool(tool.spec.name, revision, fits)
        return attached_plugin(plugin.key, plugin, revision)

    def send(self, input_: AnyInput, *, after: int = 0, random: float = 0.5, by: str = "") -> Got:
        """Apply the input *input_*, which is sent *by* this user, *after* so many milliseconds."""
        self.now += after
        arrival = Arrival(input_, self.now, random, by=by)
        self.moves.append(arrival)
        old = self.state
        got = Got(old, arrival, step(old, arrival, self.hook_runner))
        self.got.append(got)
        self.state = got.step.state
        return got

    # Words for what happens most

    def prompt(self, text: str = "hello") -> Got:
        return self.send(PromptSent((Text(text),)))

    def begins(self) -> None:
        """Begin the awaited response."""
        self.moves.append(None)
        self.state = begun(self.state, self.request_id)

    def answers(self, text: str = "", *calls: ToolCall, stop: StopReason | None = None) -> Got:
        """Apply the end of the awaited response, with *text* and *calls*."""
        return self.send(StreamEnded(self.request_id, response(text, *calls, stop=stop)))

    def returns(self, call_id: str, result: ToolResult | None = None, attempt: int = 1) -> Got:
        """Apply the result of a tool call."""
        return self.send(ToolReturned(call_id, attempt, result if result is not None else ok("done")))

    def fires(self, timer: str) -> Got:
        """Let time pass until *timer* is due, and fire it."""
        due = dict(self.state.timers)[timer]
        return self.send(TimerFired(timer), after=max(0, due - self.now))

    @property
    def request_id(self) -> str:
        assert self.state.request is not None
        return self.state.request.request_id

    def call(self, call_id: str) -> Call:
        """Return a call of the open batch."""
        actual = self.state.batch.calls.find(call_id) if self.state.batch is not None else None
        assert actual is not None
        return actual

    def cut_short(self) -> Partial:
        """Return what the response would keep if it were cut short now: some text while streaming, else nothing."""
        return Partial("so far") if self.state.phase.value == "streaming" else NOTHING_YET


def call(name: str, **args: Json) -> ToolCall:
    """Return a tool call as a model makes it: without an id."""
    return ToolCall("", name, FrozenObject(args))


def response(text: str = "", *calls: ToolCall, stop: StopReason | None = None) -> Response:
    parts = (Text(text),) if text else ()
    return Response(parts, calls, stop or (StopReason.TOOL_CALLS if calls else StopReason.END))


def with_call(batch: Batch, changed: Call) -> Batch:
    """Return *batch* with *changed* in the place of the call with its id."""
    return batch.but(calls=batch.calls.put(changed))


def ruled(*hooks: str) -> tuple[Ruling, ...]:
    """Return the rulings of hooks that no plugin answers; `check` stands for a check of arguments that fit."""
    return tuple(UNRULED[hook] if hook in UNRULED else Ruling(hook) for hook in hooks)


# Comparing


def demand_same(expected: Step, got: Step) -> None:
    """Raise `AssertionError` with the fields that differ, if the steps do.

    What each plugin answered is left out: it changes nothing, and `test_answers` checks it for each cell of the matrix.
    """
    expected, got = _unanswered(expected), _unanswered(got)
    if got == expected and repr(got) == repr(expected):
        return
    lines = list(_differences("step", expected, got))
    raise AssertionError("\n".join(["the step is not as expected:", *lines]))


def _unanswered(step: Step) -> Step:
    return step.but(rulings=tuple([ruling.but(answers=()) for ruling in step.rulings]))


def _differences(point: str, expected: object, got: object) -> Sequence[str]:
    if type(expected) is type(got) and isinstance(expected, Value) and isinstance(got, Value):
        names = type(expected).__struct_fields__
        return [
            line
            for name in names
            for line in _differences(f"{point}.{name}", vars_of(expected, name), vars_of(got, name))
        ]
    if isinstance(expected, tuple) and isinstance(got, tuple):
        return list(_in_sequence(point, cast("tuple[object, ...]", expected), cast("tuple[object, ...]", got)))
    if isinstance(expected, Mapping) and isinstance(got, Mapping) and dict(expected) == dict(got):
        return []
    return [] if expected == got else [f"  {point}:", f"    expected {expected!r}", f"    got      {got!r}"]


def vars_of(found_value: Value, name: str) -> object:
    value: object = getattr(found_value, name)
    return value


def _in_sequence(point: str, expected: tuple[object, ...], got: tuple[object, ...]) -> Sequence[str]:
    lines: list[str] = []
    for index in range(max(len(expected), len(got))):
        if index >= len(got):
            lines.append(f"  {point}[{index}] is missing: {expected[index]!r}")
        elif index >= len(expected):
            lines.append(f"  {point}[{index}] is too much: {got[index]!r}")
        else:
            lines.extend(_differences(f"{point}[{index}]", expected[index], got[index]))
    return lines
