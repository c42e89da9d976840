"""What plugins are promised, and what is promised about them: a broken guard keeps the door shut."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from agentrail import (
    Abort,
    Action,
    AddContext,
    Ask,
    Context,
    Continue,
    Emit,
    Intervene,
    Plugin,
    ReplaceMessages,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode, write
from agentrail.core.vocabulary.changes import Change, change
from agentrail.core.vocabulary.effects import CarryOut, StartCall, StartRequest
from agentrail.core.vocabulary.inputs import AskSettled, SessionOpened, StreamCut
from agentrail.core.vocabulary.state import RunningRequest
from agentrail.events import EVENTS, Envelope, Event, PluginError
from agentrail.hooks.hook_runner import PluginRow
from agentrail.hooks.hook_types import HOOKS
from agentrail.models import AssistantMessage, Failure, FailureKind, Text, UserMessage
from agentrail.plugins import (
    MATRIX,
    AfterResponse,
    Answered,
    AnyPlugin,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    CallService,
    Hook,
)
from agentrail.testing.probe_plugins import ANSWERS, LIES
from agentrail.values.content import text_of
from agentrail.values.messages import Added
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, Got, call, plug
from tests.each_case import each_case
from tests.kit import Phase, Ruling, Verdict
from tests.machinery.checks.step_checks import adds
from tests.machinery.checks.transition import Transition

ON_THE_WAY: Final = ("session_start", "before_prompt", "before_request", "after_response", "before_tool")
"""The hooks that a call passes before it runs."""


def _raises(_hook: Hook, _state: object, _ctx: Context) -> object:
    raise ValueError("oops")


def _wrongs(hook: str) -> dict[str, Callable[[Hook, object, Context], object]]:
    """Everything that a plugin must not do at *hook*."""
    accepted = {action.kind for action in MATRIX[hook]}
    wrong: dict[str, Callable[[Hook, object, Context], object]] = {
        kind: lambda h, _s, _c, make=make: make(h, 0)  # type: ignore[misc]  # bound now
        for kind, make in ANSWERS.items()
        if kind not in accepted
    }
    for number, lie in enumerate(LIES):
        wrong[f"lie {number}"] = lambda h, _s, _c, lie=lie: lie(h, 0)  # type: ignore[misc]  # bound now
    return {
        **wrong,
        "raises": _raises,
        "unstorable": lambda _h, _s, _c: Continue([1]),
        "too big": lambda _h, _s, _c: Continue("x" * 70_000),
        "asks for ever": lambda _h, _s, _c: Ask(CallService("again")),
    }


def called(*plugins: AnyPlugin) -> Bench:
    """A session to which a prompt was sent, and whose model called a tool if it was asked; every ask is answered."""
    bench = Bench(*plugins, opened=False)
    bench.send(SessionOpened())
    _settle(bench)
    if bench.state.phase is Phase.IDLE:
        bench.prompt()
        _settle(bench)
    if bench.state.request is not None:
        bench.begins()
        bench.answers("", call("look", path="a"), call("edit", path="a"))
        _settle(bench)
    return bench


def _settle(bench: Bench) -> None:
    while bench.state.suspended_runs:
        bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered("yes")))


def runs(got: list[Got]) -> bool:
    return any(isinstance(effect, StartCall) for one in got for effect in one.step.effects)


def _is_wrong(hook: str, wrong: str) -> bool:
    """Whether the answer *wrong* is an error at *hook*: some answers are errors at other hooks only."""
    bench = called(plug("P", **{hook: _wrongs(hook)[wrong]}))  # type: ignore[arg-type]  # a hook
    return any(isinstance(event, PluginError) for got in bench.got for event in got.events)


WRONG: Final = [(hook, wrong) for hook in ON_THE_WAY for wrong in _wrongs(hook) if _is_wrong(hook, wrong)]


@each_case(WRONG)
def test_a_critical_plugin_that_does_something_wrong_never_lets_a_call_run(hook: str, wrong: str) -> None:
    bench = called(plug("P", critical=True, **{hook: _wrongs(hook)[wrong]}))  # type: ignore[arg-type]  # a hook
    assert not runs(bench.got)
    assert any(isinstance(event, PluginError) for got in bench.got for event in got.events) or hook == "session_start"


def listening(broken: type[Event]) -> AnyPlugin:
    """Return a critical plugin whose `on_event` raises at events of the class *broken*."""

    class Listens(Plugin[int]):
        critical = True

        def init(self, ctx: Context) -> int:
            return 0

        def on_event(self, event: Envelope, state: int, ctx: Context) -> int:
            if type(event.event) is broken:
                raise ValueError("oops")
            return state + 1

    return Listens()


@each_case(EVENTS)
def test_a_critical_listener_that_breaks_on_the_way_to_a_call_never_lets_it_run(broken: type[Event]) -> None:
    watching = plug("Asks", after_response=lambda hook, _s, _c: Continue() if hook.answer else Ask(CallService("x")))
    heard = {type(event) for got in called(watching).got for event in got.events}
    bench = called(watching, listening(broken))
    before_the_turn = broken.__name__ == "SessionStarted"
    assert runs(bench.got) == (broken not in heard or before_the_turn)
    for got in bench.got:
        cancelled = {effect.ask_id for effect in got.step.effects if isinstance(effect, CarryOut)}
        assert not cancelled or got.step.state.suspended_runs


# Skip


HOOK_EXAMPLES: Final[dict[str, Hook]] = {
    "before_prompt": BeforePrompt("hello", "p1"),
    "before_request": BeforeRequest((UserMessage((Text("hello"),)),)),
    "after_response": AfterResponse(AssistantMessage((Text("hi"),))),
    "before_tool": BeforeTool("look", {"path": "a"}, "c1"),
}
GATHERS: Final = (
    Continue(1),
    Intervene("note", 1),
    Emit("noted", 1, state=1),
    SwitchModel("n", 1),
    SetSection("mood", "calm", 1),
    SetSection("mood", None, 1),
    ReplaceMessages((UserMessage((Text("other"),)),), 1),
    *(ANSWERS["replace_tool_args"](BeforeTool("look", {"path": "a"}, "c1"), turn) for turn in range(3)),
)


@given(st.sampled_from(sorted(HOOK_EXAMPLES)), st.lists(st.sampled_from(GATHERS), max_size=5), st.booleans())
def test_skip_after_any_other_action_changes_nothing_before_it(
    hook: str, answers: list[Action[object]], guarded: bool
) -> None:
    accepted = [answer for answer in answers if type(answer) in MATRIX[hook]]
    given_first = [
        plug(f"P{number}", first=0, **{hook: answer})  # type: ignore[arg-type]  # a hook
        for number, answer in enumerate(accepted)
    ]
    guard = [plug("Guard", first=0, critical=True, priority=1, **{hook: Continue()})] if guarded else []
    late = plug("Late", first=0, **{hook: Abort("asked")})  # type: ignore[arg-type]  # a hook
    skips = plug("Skips", first=0, **{hook: Skip(1)})  # type: ignore[arg-type]  # a hook
    plain = _ruling(hook, [*guard, *given_first])
    skipped = _ruling(hook, [*guard, *given_first, skips, late])
    assert plain.verdict is Verdict.PASS
    assert skipped.verdict in (Verdict.SKIP, Verdict.PASS)
    assert skipped.decisions == plain.decisions
    mine = len(guard) + len(given_first)
    assert skipped.states == (*plain.states, (mine, 1))


def _ruling(hook: str, plugins: list[AnyPlugin]) -> Ruling:
    bench = Bench(*plugins, opened=False)
    row = PluginRow(bench.state.plugins, tuple(0 for _ in plugins))
    return bench.hook_runner.run(HOOK_EXAMPLES[hook], row, Context)


# Order


@st.composite
def crowds(draw: st.DrawFn) -> list[tuple[int, dict[str, str]]]:
    """Plugins of different priorities, each with one answer at some hooks."""
    priorities = draw(st.lists(st.integers(0, 999), min_size=1, max_size=5, unique=True))
    return [(priority, draw(_lines())) for priority in priorities]


def _lines() -> st.SearchStrategy[dict[str, str]]:
    kinds = {hook.hook_name: sorted(action.kind for action in MATRIX[hook.hook_name]) for hook in HOOKS}
    return st.dictionaries(st.sampled_from(sorted(kinds)), st.integers(0, 99), max_size=4).map(
        lambda drawn: {hook: kinds[hook][number % len(kinds[hook])] for hook, number in drawn.items()}
    )


def _crowd(members: list[tuple[int, dict[str, str]]]) -> list[AnyPlugin]:
    return [
        plug(f"P{priority}", first=0, priority=priority, **_answers(lines))  # type: ignore[arg-type]  # hooks
        for priority, lines in members
    ]


def _answers(lines: dict[str, str]) -> dict[str, object]:
    def answering(kind: str) -> Callable[[Hook, object, Context], object]:
        def answer(hook: Hook, state: object, _ctx: Context) -> object:
            assert isinstance(state, int)
            return Continue() if hook.answer is not None or state > 6 else ANSWERS[kind](hook, state)

        return answer

    return {hook: answering(kind) for hook, kind in lines.items()}


@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_registration_does_not_matter_between_different_priorities(
    members: list[tuple[int, dict[str, str]]], chance: Random
) -> None:
    shuffled = list(members)
    chance.shuffle(shuffled)
    one, other = called(*_crowd(members)), called(*_crowd(shuffled))
    assert [got.step for got in one.got] == [got.step for got in other.got]


# Context that is added


LINES: Final = ("add_context", "continue", "intervene", "replace_messages", "ask", "skip", "switch_model")
MARK: Final = "context of"


def _adding(index: int, line: tuple[str, ...]) -> AnyPlugin:
    """Return a plugin that answers `before_request` as *line* says, over and over; each context that it adds is new."""

    def answer(hook: Hook, state: object, _ctx: Context) -> object:
        assert isinstance(state, int)
        kind = line[state % len(line)]
        if kind == "add_context":
            return AddContext(f"{MARK} P{index}, {state}", state + 1)
        return Continue(state + 1) if hook.answer is not None else ANSWERS[kind](hook, state)

    return plug(f"P{index}", first=0, priority=900 + index, before_request=answer)


@given(st.lists(st.lists(st.sampled_from(LINES), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4))
def test_added_context_is_in_its_request_alone_in_order_and_with_its_origin(lines: list[tuple[str, ...]]) -> None:
    bench = called(*[_adding(index, line) for index, line in enumerate(lines)])
    for _ in range(3):
        for done in () if bench.state.batch is None else tuple(bench.state.batch.calls):
            bench.returns(done.call_id)
            _settle(bench)
        if bench.state.request is not None:  # it fails, and the next attempt has context of its own
            failure = Failure(FailureKind.TRANSIENT, "Busy", "try again")
            bench.send(StreamCut(bench.state.request.request_id, NOTHING_YET, failure))
            bench.fires("retry")
            _settle(bench)
        if bench.state.request is not None:
            bench.answers("done")
        _settle(bench)
        bench.prompt("again")
        _settle(bench)
    for got in bench.got:
        adds(Transition(got.before, got.arrival, got.step))
        assert not any(MARK in text_of(one.parts) for one in got.step.state.history if isinstance(one, UserMessage))
        for effect in got.step.effects:
            if isinstance(effect, StartRequest):
                texts = [text_of(one.parts) for one in effect.request.messages if isinstance(one, UserMessage)]
                added = [text for text in texts if MARK in text]
                assert added == texts[len(texts) - len(added) :]
                assert added == sorted(added), "they are not in the order of the plugins"
                told = decode(Change, from_text(write(change(got.before, got.step.state)))).request
                pieces = () if not isinstance(told, RunningRequest) or told.messages is None else told.messages.pieces
                by = [(piece.by, text_of(piece.message.parts)) for piece in pieces if isinstance(piece, Added)]
                assert by == [(text.removeprefix(MARK).split(",")[0].strip(), text) for text in added]
