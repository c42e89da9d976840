"""What a plugin answers is looked at, whatever it is: told by its field, and nothing of a wrong answer counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from agentrail import (
    Action,
    AddContext,
    Ask,
    Context,
    Continue,
    Emit,
    Intervene,
    Plugin,
    ReplaceMessages,
    ReplaceToolArgs,
)
from agentrail.codec.plugin_states import storable
from agentrail.errors import PluginRefused
from agentrail.events import (
    ContentPolicyViolated,
    Envelope,
    Event,
    LargeResultOffloaded,
    MemoryFlushed,
    PlanGenerated,
    PlanStepCompleted,
    PluginError,
    PluginEvent,
    PluginSlow,
    SecurityAudit,
    SessionWoken,
)
from agentrail.hooks.actions import Emission
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, updated_plugin
from agentrail.hooks.declarations import MoneyLimit
from agentrail.hooks.hook_runner import Consent, PluginRow
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import ON_EVENT
from agentrail.hooks.ruling import Decisions, PluginAnswer
from agentrail.models import AssistantMessage, History, Message, Text, Thinking, Usage, UserMessage
from agentrail.plugins import (
    AfterTool,
    AfterTurn,
    AnyPlugin,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    CallService,
    ChangeTools,
    Failed,
    FindFiles,
    FindGitPrograms,
    Hook,
    Log,
    RunTool,
    WriteFile,
)
from agentrail.tools import ok
from agentrail.values.messages import MessageRange, Rearranged
from agentrail.values.step_budget import Meter
from tests.cells.bench import plug
from tests.each_case import each_case
from tests.kit import EMPTY, NOTHING_USED, Ruling, Verdict, freeze_object

HELLO: Final = UserMessage((Text("hello"),))
HOOKS: Final[tuple[Hook, ...]] = (
    BeforePrompt("hello"),
    BeforeRequest(History((HELLO,)), 1, None),
    BeforeTool("look", EMPTY, "c1"),
    AfterTool("look", "c1", ok("text")),
)


class Changing(list[tuple[object, object]]):
    """Pairs, the first time that they are read; other ones from then on."""

    read = 0

    def __iter__(self) -> Iterator[tuple[object, object]]:
        self.read += 1
        return iter([("one", 1)] if self.read == 1 else [(5, 1)])


class Unreadable(list[Message]):
    """Messages that can be looked at once."""

    read = 0

    def __iter__(self) -> Iterator[Message]:
        self.read += 1
        if self.read > 1:
            raise OSError("gone")
        return iter([HELLO])


def hook_runner(
    plugin: AnyPlugin, *, can_store: Callable[[object], str | None] = storable
) -> tuple[LiveRunner, AttachedPlugin]:
    attached = attached_plugin("P", plugin)
    live = LiveRunner(can_store)
    live.attach("P", 0, plugin)
    return live, attached


def ruled(answer: object, hook_name: str = "before_prompt") -> Ruling:
    """Return the ruling on a hook whose only plugin gives this *answer*."""
    live, attached = hook_runner(plug("P", **{hook_name: lambda *_: answer}))  # type: ignore[arg-type]  # a hook
    (hook,) = (hook for hook in HOOKS if hook.hook_name == hook_name)
    return live.run(hook, PluginRow((attached,), (None,)), Context)


OWN = "which is neither an emission nor an event of its own to report"
NAME = "which is neither a name nor pairs nor an event of its own to report"


@each_case(
    [
        (None, "before_prompt", "it answered nothing (is a `return` missing?), which `before_prompt` does not accept"),
        (5, "before_prompt", "it answered a `int`, which `before_prompt` does not accept"),
        (
            ReplaceToolArgs({}),
            "before_prompt",
            "it answered `replace_tool_args`, which `before_prompt` does not accept",
        ),
        (ReplaceMessages([HELLO, 5]), "before_request", "its `replace_messages` has a `list` for `messages`"),  # type: ignore[list-item]
        (ReplaceMessages(()), "before_request", "its `replace_messages` has a `tuple` for `messages`"),
        (ReplaceMessages(Unreadable([HELLO])), "before_request", "OSError: gone"),
        (
            ReplaceToolArgs({"a": math.nan}),
            "before_tool",
            "its `replace_tool_args` is given no JSON for `args`: $.a is the number nan, which",
        ),
        (Ask(FindFiles(("a", 5))), "before_prompt", "its `ask` has a `FindFiles` for `request`"),  # type: ignore[arg-type]
        (Ask(FindFiles(["a"])), "before_prompt", "its `ask` has a `FindFiles` for `request`"),  # type: ignore[arg-type]
        (Ask(FindFiles(("a",), folders="b")), "before_prompt", "its `ask` has a `FindFiles` for `request`"),  # type: ignore[arg-type]
        (Ask(ChangeTools("ab")), "before_prompt", "its `ask` has a `ChangeTools` for `request`"),  # type: ignore[arg-type]
        (Ask(ChangeTools((), (5,))), "before_prompt", "its `ask` has a `ChangeTools` for `request`"),  # type: ignore[arg-type]
        (Ask(FindFiles(("a",), ignored=1)), "before_prompt", "its `ask` has a `FindFiles` for `request`"),  # type: ignore[arg-type]
        (Ask(WriteFile("a", 5)), "before_prompt", "its `ask` has a `WriteFile` for `request`"),  # type: ignore[arg-type]
        (Ask(WriteFile(5, "a")), "before_prompt", "its `ask` has a `WriteFile` for `request`"),  # type: ignore[arg-type]
        (Ask(WriteFile("a", "b", b"c")), "before_prompt", "its `ask` is given no JSON for `request`"),  # type: ignore[arg-type]
        (Ask(WriteFile("a", "\ud800")), "before_prompt", "its `ask` is given no JSON for `request`"),
        (Ask(CallService("a", object())), "before_prompt", "its `ask` is given no JSON for `request`"),  # type: ignore[arg-type]
        (
            AddContext(behind=[AssistantMessage((Text("a"), Thinking("b")))]),
            "before_request",
            "its `add_context` has a `list` for `behind`",
        ),
        (Emit((5,)), "before_prompt", f"it emits a `tuple`, {NAME}"),  # type: ignore[arg-type]
        (Emit(("one",)), "before_prompt", f"it emits a `tuple`, {NAME}"),  # type: ignore[arg-type]
        (Emit((("one",),)), "before_prompt", f"it emits a `tuple`, {NAME}"),  # type: ignore[arg-type]
        (Emit((("one", 1, 2),)), "before_prompt", f"it emits a `tuple`, {NAME}"),  # type: ignore[arg-type]
        (Emit(((5, 1),)), "before_prompt", f"it emits a `tuple`, {NAME}"),  # type: ignore[arg-type]
        (Emit(Changing()), "before_prompt", "it emits a `PluginEvent`"),  # type: ignore[arg-type]
        (Emit(SessionWoken()), "before_prompt", f"it emits a `SessionWoken`, {NAME}"),
        (Emit(PlanStepCompleted("1", "look")), "before_prompt", f"it emits a `PlanStepCompleted`, {NAME}"),  # type: ignore[arg-type]
        (Emit(PlanStepCompleted(True, "look")), "before_prompt", f"it emits a `PlanStepCompleted`, {NAME}"),
        (Emit(PlanStepCompleted(1, 5)), "before_prompt", f"it emits a `PlanStepCompleted`, {NAME}"),  # type: ignore[arg-type]
        (Emit(PlanStepCompleted(2**70, "look")), "before_prompt", "is given no JSON"),
        (Emit(MemoryFlushed(["a"], 1)), "before_prompt", f"it emits a `MemoryFlushed`, {NAME}"),  # type: ignore[arg-type]
        (Emit(MemoryFlushed(("a", 5), 1)), "before_prompt", f"it emits a `MemoryFlushed`, {NAME}"),  # type: ignore[arg-type]
        (Emit(PluginEvent("P", "one", object())), "before_prompt", "is given no JSON"),  # type: ignore[arg-type]
        (Emit("one").but(emits=[Emission("two")]), "before_prompt", f"it emits a `list`, {OWN}"),
        (Emit("one").but(emits=(Emission("two"), 5)), "before_prompt", f"it emits a `tuple`, {OWN}"),
        (Emit("one").but(emits=(PlanGenerated(("a", 5)),)), "before_prompt", f"it emits a `tuple`, {OWN}"),  # type: ignore[arg-type]
    ]
)
def test_a_wrong_answer_is_told_and_nothing_comes_of_it(answer: object, hook_name: str, message: str) -> None:
    ruling = ruled(answer, hook_name)
    (error,) = ruling.errors
    assert isinstance(error, PluginError)
    assert message in error.error
    assert ruling == Ruling(hook_name, errors=(PluginError("P", hook_name, error.error),))


@pytest.mark.parametrize(
    "event",
    [
        PlanStepCompleted(1, "look"),
        MemoryFlushed(("a", "b"), 1),
        PluginEvent("P", "one", freeze_object({"a": 1})),
        PlanGenerated(()),
        ContentPolicyViolated("an address", ("privacy",)),
        LargeResultOffloaded("c1", "look", "a.txt", 100_000),
        SecurityAudit("c1", "look", "allowed", "it only reads"),
    ],
)
def test_an_event_of_the_catalogue_is_emitted_as_it_is(event: Event) -> None:
    answers = (PluginAnswer("P", "emit", emits=1),)
    assert ruled(Emit(event)) == Ruling("before_prompt", decisions=Decisions(emits=(event,)), answers=answers)


@pytest.mark.parametrize(
    "request_",
    [
        FindFiles(("a", "b"), ("c",), ("d",), ignored=False),
        FindFiles(()),
        FindGitPrograms(),
        WriteFile("a", "b", "c"),
        ChangeTools(("a",)),
        RunTool("look", {"a": 1}),
    ],
)
def test_a_request_is_asked_as_it_is(request_: FindFiles | FindGitPrograms | WriteFile | ChangeTools | RunTool) -> None:
    ruling = ruled(Ask(request_))
    assert (ruling.verdict, ruling.errors) == (Verdict.ASK, ())
    assert ruling.pause is not None
    assert ruling.pause.request == request_


def test_files_that_git_ignores_are_looked_at_unless_a_plugin_says_otherwise() -> None:
    assert FindFiles(("a",)) == FindFiles(("a",), (), (), ignored=True)


def test_messages_that_were_there_already_are_kept_as_ranges() -> None:
    live, attached = hook_runner(plug("P", before_request=lambda hook, *_: ReplaceMessages(list(hook.messages)[-1:])))
    ruling = live.run(HOOKS[1], PluginRow((attached,), (None,)), Context)
    assert ruling.decisions.messages == Rearranged((MessageRange(0, 1),))


def test_guards_are_asked_again_when_what_they_ruled_on_was_replaced() -> None:
    texts: list[str] = []

    def guard(name: str, answer: Action[object]) -> Callable[..., object]:
        def rule(hook: BeforeTool, *_: object) -> object:
            texts.append(f"{name} {hook.args.get('path')} {hook.final}")
            return answer

        return rule

    plugins = (
        plug("A", critical=True, before_tool=guard("A", Continue())),
        plug("B", before_tool=guard("B", Continue())),
        plug("C", before_tool=guard("C", ReplaceToolArgs({"path": "b"}))),
        plug("D", critical=True, before_tool=guard("D", Continue())),
    )
    live = LiveRunner(storable)
    attached_plugins = tuple(attached_plugin(plugin.key, plugin) for plugin in plugins)
    for attached, plugin in zip(attached_plugins, plugins, strict=True):
        live.attach(attached.key, 0, plugin)
    ruling = live.run(
        BeforeTool("look", freeze_object({"path": "a"}), "c1"), PluginRow(attached_plugins, (None,) * 4), Context
    )
    assert texts == ["A a False", "B a False", "C a False", "D b False", "A b True"]
    assert (ruling.verdict, ruling.decisions.args) == (Verdict.PASS, {"path": "b"})


# Listeners


class Hears(Plugin[object]):
    """Count what it hears, and answer as a test says."""

    def __init__(self, answer: Callable[[int, object], object]) -> None:
        object.__setattr__(self, "answer", answer)

    answer: Callable[[int, object], object]

    def init(self, ctx: Context) -> object:
        return 0

    def on_event(self, event: Envelope, state: object, ctx: Context) -> object:
        return self.answer(event.seq, state)


def heard(answer: Callable[[int, object], object], *events: Event, state: object = 0) -> tuple[Ruling, list[object]]:
    """Return the ruling of a listener, and the states that were looked at whether they can be stored."""
    looked_at: list[object] = []

    def can_store(value: object) -> str | None:
        looked_at.append(value)
        return storable(value)

    live, attached = hook_runner(Hears(answer), can_store=can_store)
    envelopes = [Envelope("s", seq, 0, 1, 0, 0, event) for seq, event in enumerate(events, 1)]
    ruling = live.learn(envelopes, PluginRow((attached,), (state,)), Context, {})
    return ruling, looked_at


def failed(problem: str) -> tuple[PluginError, ...]:
    return (PluginError("P", ON_EVENT, problem),)


def test_a_listener_that_answers_with_an_action_or_what_cannot_be_stored_keeps_its_state() -> None:
    ruling, _ = heard(lambda *_: Continue(), SessionWoken())
    assert ruling == Ruling(
        ON_EVENT,
        errors=failed("BrokenPlugin: plugin `P` in `on_event`: it returned `continue` where its state is wanted"),
    )
    ruling, _ = heard(lambda *_: object(), SessionWoken())
    (error,) = ruling.errors
    assert isinstance(error, PluginError)
    assert error.error.startswith("BrokenPlugin: plugin `P` in `on_event`: its state cannot be stored: ")
    assert ruling == Ruling(ON_EVENT, errors=failed(error.error))


def test_a_state_that_stays_is_not_looked_at_again() -> None:
    ruling, looked_at = heard(lambda *_: 0, SessionWoken())
    assert (ruling, looked_at) == (Ruling(ON_EVENT), [])
    ruling, looked_at = heard(lambda seq, _: 1 if seq < 3 else Log("info", "x", EMPTY, 2), *[SessionWoken()] * 3)
    answers = (PluginAnswer("P", "log"),)
    assert ruling == Ruling(ON_EVENT, states=((0, 2),), logs=(("info", "x", EMPTY),), answers=answers)
    assert looked_at == [1, 2]


def test_that_a_listener_was_slow_is_not_told_to_listeners() -> None:
    events = (SessionWoken(), PluginSlow(("P",), 70), SessionWoken())
    ruling, _ = heard(lambda seq, state: f"{state} {seq}", *events, state="heard")
    assert ruling == Ruling(ON_EVENT, states=((0, "heard 1 3"),))


# What else a hook runner asks of a plugin


def test_what_a_plugin_raises_when_it_is_made_is_complained_of_and_refuses_it() -> None:
    class Broken(Plugin[int]):
        def init(self, ctx: Context) -> int:
            raise OSError("no disk")

    live, attached = hook_runner(Broken())
    values: list[object] = []
    live.complain = lambda *given: values.append((*given[:3], type(given[3])))
    assert live.init(attached, Context) == Ruling("init", Verdict.ABORT, "P", "OSError: no disk", critical=True)
    assert values == [(attached, "init", "OSError: no disk", OSError)]


@pytest.mark.parametrize(
    ("reason", "message"), [("no price", "no price"), ("\ud800", "\ufffd"), ("x" * 20_000, "x" * 10_000), (5, "5")]
)
def test_a_refusal_is_told_as_text_whatever_its_reason_is(reason: str, message: str) -> None:
    class Refuses(Plugin[None]):
        def init(self, ctx: Context) -> None:
            raise PluginRefused(reason)

    live, attached = hook_runner(Refuses())
    assert live.init(attached, Context) == Ruling("init", Verdict.ABORT, "P", message)


def test_a_state_that_is_the_same_is_not_recorded() -> None:
    live, attached = hook_runner(plug("P", before_prompt=lambda _hook, state, _ctx: Intervene("look", state)))
    ruling = live.run(HOOKS[0], PluginRow((attached,), ("state",)), Context)
    assert (ruling.states, ruling.decisions, ruling.errors) == ((), Decisions(texts=("look",)), ())


def test_a_plugin_sees_before_the_end_what_others_have_added_also_after_it_has_asked() -> None:
    seen: list[tuple[str, ...]] = []

    def look(hook: BeforeFinish, *_: object) -> object:
        seen.append(hook.texts)
        return Continue() if hook.answer is not None else Ask(CallService("s"))

    row = [plug(f"P{index}", before_finish=Intervene(f"again {index}")) for index in range(2)]
    row.append(plug("Last", before_finish=look))
    live = LiveRunner(storable)
    for plugin in row:
        live.attach(plugin.key, 0, plugin)
    attached_plugins = PluginRow(tuple(attached_plugin(plugin.key, plugin) for plugin in row), (None,) * 3)
    ruling = live.run(BeforeFinish(), attached_plugins, Context)
    assert ruling.pause is not None
    position = ruling.pause.position.but(asked=ruling.pause.request, answer=Failed("no"))
    assert live.run(BeforeFinish(), attached_plugins, Context, position, ruling.decisions).decisions.texts == (
        "again 0",
        "again 1",
    )
    assert seen == [("again 0", "again 1")] * 2


def test_a_plugin_sees_whether_a_person_has_approved_the_arguments() -> None:
    seen: list[bool] = []

    def note(hook: BeforeTool, *_: object) -> object:
        seen.append(hook.approved)
        return Continue()

    live, attached = hook_runner(plug("P", before_tool=note))
    args = freeze_object({"path": "a"})
    for approved in (None, args, freeze_object({"path": "b"})):
        live.run(BeforeTool("look", args, "c1"), PluginRow((attached,), (None,)), Context, consent=Consent(approved))
    assert seen == [False, True, False]


def test_arguments_that_no_adapter_could_read_are_told_so() -> None:
    live, _ = hook_runner(plug("P"))
    live.tool("look", 0, lambda *_: None)
    meter = Meter(1)
    unread = live.check("look", 0, freeze_object({"": "{"}), meter)
    assert unread.reason.startswith("they are no JSON object, or one of more than ")
    assert live.check("look", 0, freeze_object({"": 1, "a": 2}), meter).verdict is Verdict.PASS


def test_code_that_is_not_kept_is_let_go() -> None:
    live, attached = hook_runner(plug("P", before_prompt=Continue()))
    live.tool("look", 0, lambda *_: None)
    live.tool("edit", 0, lambda *_: None)
    live.keep({("P", 0)}, {("look", 0)})
    assert live.plugin(attached) is live.plugin(attached)
    assert live.check("look", 0, EMPTY, None).verdict is Verdict.PASS  # type: ignore[arg-type]  # not used
    with pytest.raises(KeyError):
        live.check("edit", 0, EMPTY, None)  # type: ignore[arg-type]  # not used
    live.keep(set(), set())
    with pytest.raises(KeyError):
        live.plugin(attached)


def test_options_that_were_changed_at_run_time_are_noted_with_their_values_in_the_code() -> None:
    old = attached_plugin("P", plug("P")).but(
        options=freeze_object({"a": 1, "b": 2}), changed=freeze_object({"a": 0}), pinned=("a", "z")
    )
    new = old.but(options=freeze_object({"a": 5, "c": 6}))
    changed = {"a": 0, "b": 2, "c": None}
    pinned = updated_plugin(old, new, ("a", "b", "c"), pin=True)
    assert pinned == new.but(changed=freeze_object(changed), pinned=("a", "z"))
    assert updated_plugin(old, new, ("a",), pin=False) == new.but(changed=freeze_object({"a": 0}), pinned=("z",))
    assert updated_plugin(old.but(pinned=()), new, ("a", "b", "c"), pin=True).pinned == ("a",)


def test_the_money_left_under_a_limit_is_what_was_not_spent_and_never_negative() -> None:
    spent, more = Usage(10, 1, cost_usd=0.5), Usage(10, 1, cost_usd=1.0)
    for limit, usage, elsewhere, remaining in (
        (MoneyLimit(2.0), NOTHING_USED, NOTHING_USED, 2.0),
        (MoneyLimit(2.0), spent, more, 1.5),
        (MoneyLimit(2.0, shared=True), spent, more, 0.5),
        (MoneyLimit(0.25), spent, NOTHING_USED, 0.0),
        (MoneyLimit(2.0), Usage(10, 1), NOTHING_USED, None),
        (MoneyLimit(2.0), spent, Usage(10, 1), 1.5),
        (MoneyLimit(2.0, shared=True), spent, Usage(10, 1), None),
    ):
        assert limit.dollars_left(usage, elsewhere) == remaining


def test_a_turn_took_as_long_as_from_its_start_to_its_end() -> None:
    fields = AfterTurn.__struct_fields__
    turn = AfterTurn(**{name: {"started_at_ms": 100, "ended_at_ms": 350}.get(name) for name in fields})  # type: ignore[arg-type]
    assert turn.duration_ms == 250
