"""Slightly wrong names and values are refused with the right one in the message; none is ignored silently."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from inspect import signature
from typing import cast, get_args

import pytest
import trio

import agentrail
from agentrail import Options, Plugin, SessionSpec, tool
from agentrail.adapters.models.settings import READERS
from agentrail.core.supervision_rules import STRATEGIES, Strategy
from agentrail.core.vocabulary.commands import KILLS, WHENS, Kill, When
from agentrail.errors import (
    AlreadyLeft,
    AlreadyRead,
    BadChoice,
    BadOptions,
    BadPlugin,
    BadSpec,
    BadTool,
    UnknownArgument,
    UnknownField,
    UnknownModel,
    UnknownPlugin,
    UsageError,
    WrongType,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentStart,
    ApprovalRequired,
    AskUser,
    Envelope,
    Ephemeral,
    Event,
    MessageDelta,
    ResponseComplete,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.host import HostLimits
from agentrail.mcp import McpServer
from agentrail.models import AssistantMessage, Json, Usage
from agentrail.other_names import OTHER_NAMES
from agentrail.plugins import BudgetGuard, Keyed, SecurityGuard
from agentrail.plugins.budget import Spent
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import NotStarted, Unknown
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy
from tests.each_case import each_case
from tests.runtime.tools import quick
from tests.runtime.world import World, settle

FIELDS = {"system_prompt": "system", "max_round": "max_rounds", "tols": "tools", "plugin": "plugins", "modle": "model"}


@pytest.mark.parametrize(("text", "meant"), FIELDS.items())
def test_a_field_that_is_misspelt_is_named_with_the_nearest_one(text: str, meant: str) -> None:
    said_text = f"`SessionSpec` has no field `{text}`; did you mean `{meant}`?"
    with pytest.raises(UnknownField) as caught:
        SessionSpec(model="demo", **{text: 1})  # type: ignore[arg-type]  # on purpose
    assert str(caught.value) == said_text
    with pytest.raises(UnknownField) as caught:
        SessionSpec(model="demo").but(**{text: 1})
    assert str(caught.value) == said_text


GONE: dict[str, str] = {
    **dict.fromkeys(
        ("max_argument_chars", "max_argument_items", "tool_grace", "compact_timeout"),
        "it is the same for all sessions; leave it out (`guide/limits` says how much it is)",
    ),
    **dict.fromkeys(
        ("retry_cap", "retry_after_cap"),
        "it is the same for all sessions; leave it out, and write `retry_base=…` or `max_retries=…` to wait less",
    ),
    "max_calls_per_response": "it is the same for all sessions; leave it out: the model makes further calls",
    "base": "write it in `system`, before the text of this agent; a sub-agent has a `system` of its own",
    "identity": "write it in `system`, after what the agent is for",
}
"""Options that there were, each with what is said instead."""


@pytest.mark.parametrize(("text", "said_text"), GONE.items())
def test_an_option_that_is_gone_is_answered_with_what_to_do(text: str, said_text: str) -> None:
    with pytest.raises(UnknownField) as caught:
        SessionSpec(model="demo", **{text: 1})  # type: ignore[arg-type]  # on purpose
    assert str(caught.value).startswith(f"`SessionSpec` has no field `{text}`; {said_text}")
    with pytest.raises(UnknownField, match=text):
        SessionSpec(model="demo").but(**{text: 1})
    with pytest.raises(UnknownField) as caught:
        Options(**{text: 1})  # type: ignore[arg-type]  # on purpose
    assert str(caught.value).startswith(f"`Options` has no field `{text}`; {said_text}")


def test_a_field_that_is_like_none_is_answered_with_all() -> None:
    with pytest.raises(UnknownField, match="its fields are `agents`, `answer_max_retries`, `compact_at`"):
        SessionSpec(model="demo", qqqq=1)  # type: ignore[call-arg]  # on purpose


def test_the_old_name_of_the_limit_of_rounds_is_understood_with_a_warning() -> None:
    old = "max_turns"
    for make in (SessionSpec, SessionSpec(model="demo").but, Options):
        with pytest.warns(FutureWarning, match="`max_turns` is called `max_rounds` now") as warned:
            new_value = make(**{old: 3})  # type: ignore[arg-type]  # on purpose
        assert new_value.max_rounds == 3
        assert warned[0].filename == __file__
    with pytest.raises(UnknownField, match="`max_turns`"):
        SessionSpec(model="demo", max_rounds=4, **{old: 3})  # type: ignore[arg-type]  # on purpose


@each_case(READERS)
def test_an_option_of_the_model_is_not_mistaken_for_a_field(option: str) -> None:
    text = (
        f'`SessionSpec` has no field `{option}`; it is an option of the model; write `model_options={{"{option}": …}}`'
    )
    with pytest.raises(UnknownField) as caught:
        SessionSpec(model="demo", **{option: 1})  # type: ignore[arg-type]  # on purpose
    assert str(caught.value) == text


@pytest.mark.parametrize("name", ["max_cost", "max_usd", "budget"])
def test_a_limit_of_cost_is_looked_for_in_the_plugin(name: str) -> None:
    with pytest.raises(
        UnknownField, match=r"costs are limited by a plugin; write `plugins=\[BudgetGuard\(max_usd=…\)\]`"
    ):
        SessionSpec(model="demo", **{name: 1})  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UnknownField, match=r"did you mean `usd_per_day`\?"):
        HostLimits(**{name: 1})
    if name != "max_usd":
        with pytest.raises(UnknownField, match=r"did you mean `max_usd`\?"):
            BudgetGuard(**{name: 1})  # type: ignore[arg-type]  # on purpose


IMPORTS = {
    **dict.fromkeys(("Agent", "create_agent", "Runner"), "open_supervisor"),
    **dict.fromkeys(("StateGraph", "START"), "plugins"),
    **dict.fromkeys(("AgentEnd", "MessageDelta"), "from agentrail.events import"),
    **dict.fromkeys(("Session", "AgentSession"), "supervisor.spawn"),
    **dict.fromkeys(("RunContext", "RunContextWrapper"), "ToolContext"),
    **dict.fromkeys(("TestModel", "FunctionModel"), "ScriptedModel"),
    **dict.fromkeys(("Tool", "function_tool"), "@tool"),
    **dict.fromkeys(("TurnEnd", "FinalResultEvent"), "AgentEnd"),
    **dict.fromkeys(("SubAgent", "AgentTool"), "SessionSpec(agents="),
    "UsageLimits": "BudgetGuard(…)]`, from `agentrail.plugins`; `agentrail.plugins` has another `UsageLimits`",
    "ModelRetry": "ToolError",
    "BudgetGuard": "from agentrail.plugins import BudgetGuard",
    "SqliteJournal": "from agentrail.journals import SqliteJournal",
    "SessionSpecs": "did you mean `SessionSpec`",
}


@pytest.mark.parametrize(("name", "here"), IMPORTS.items())
def test_a_name_that_is_not_there_is_answered_with_what_to_write(name: str, here: str) -> None:
    with pytest.raises(ImportError, match=f"agentrail has no `{name}`: .*{re.escape(here)}"):
        exec(f"from agentrail import {name}", {})  # noqa: S102 - as a program says it
    with pytest.raises(AttributeError, match=f"agentrail has no `{name}`: .*{re.escape(here)}"):
        getattr(agentrail, name)
    assert not hasattr(agentrail, name)


@pytest.mark.parametrize(
    ("package", "name", "here"),
    [
        ("events", "SessionSpec", "from agentrail import SessionSpec"),
        ("events", "AgentFinish", "did you mean `AgentEnd`"),
        ("plugins", "BudgetGard", "did you mean `BudgetGuard`"),
        ("testing", "TestModel", "ScriptedModel"),
        ("tools", "function_tool", "@tool"),
        ("tools", "read_file", "standard_tools()"),
        ("events", "TextDelta", "MessageDelta"),
        ("events", "TurnEnd", "AgentEnd"),
        ("models", "OpenAIChatModel", 'model="openai:'),
    ],
)
def test_other_packages_answer_so_too(package: str, name: str, here: str) -> None:
    with pytest.raises(ImportError, match=f"agentrail.{package} has no `{name}`: .*{re.escape(here)}"):
        exec(f"from agentrail.{package} import {name}", {})  # noqa: S102 - as a program says it


@each_case(OTHER_NAMES["SessionSpec"].items())
def test_a_field_by_the_name_of_another_library_is_named(name: str, hint: str) -> None:
    with pytest.raises(UnknownField) as caught:
        SessionSpec(model="demo", **{name: 1})  # type: ignore[arg-type]  # on purpose
    meant = re.fullmatch(r"did you mean `(\w+)`\?", hint)
    assert hint in str(caught.value)
    assert meant is None or meant[1] in SessionSpec.__struct_fields__


@each_case(OTHER_NAMES["BudgetGuard"].items())
def test_an_option_by_the_name_of_another_library_is_named(name: str, hint: str) -> None:
    with pytest.raises(UnknownField, match=re.escape(hint)):
        BudgetGuard(**{name: 1})  # type: ignore[arg-type]  # on purpose
    assert hint.split("`")[1] in signature(BudgetGuard).parameters


async def test_attributes_and_arguments_by_the_name_of_another_library_say_what_to_write(world: World) -> None:
    session = await world.supervisor.spawn(SessionSpec(model=ScriptedModel(["hi"])))
    reply = await session.ask("hi")
    for owner, thing in {"SessionHandle": session, "Reply": reply, "Supervisor": world.supervisor}.items():
        for name, hint in OTHER_NAMES[owner].items():
            assert not hasattr(thing, name), name
            with pytest.raises(AttributeError, match=re.escape(hint)):
                getattr(thing, name)
    turn = session.stream("again")
    for name, hint in OTHER_NAMES["TurnStream"].items():
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(turn, name)
    for owner in ("approve", "reject"):
        for name, hint in OTHER_NAMES[owner].items():
            with pytest.raises(UnknownArgument, match=re.escape(hint)):
                await _called(getattr(session, owner), "x", **{name: 1})
    for name, hint in OTHER_NAMES["spawn"].items():
        with pytest.raises(UnknownArgument, match=re.escape(hint)):
            await _called(world.supervisor.spawn, SessionSpec(model="demo"), **{name: 1})
    for name, hint in OTHER_NAMES["ask"].items():
        for method in (session.ask, session.prompt, session.stream):
            with pytest.raises(UnknownArgument, match=re.escape(hint)):
                await _called(method, "hi", **{name: 1})
    with pytest.raises(UnknownArgument, match="`approve` takes no argument `allways`; did you mean `always`"):
        await _called(session.approve, "x", allways=True)
    with pytest.raises(UnknownArgument, match="`spawn` takes no argument `lables`; did you mean `labels`"):
        await _called(world.supervisor.spawn, SessionSpec(model="demo"), lables=())


async def _called(method: Callable[..., object], *args: object, **named: object) -> None:
    called = method(*args, **named)
    if isinstance(called, Awaitable):
        await called


async def test_a_subscription_without_async_says_so(world: World) -> None:
    session = await world.supervisor.spawn(SessionSpec(model=ScriptedModel(["hi"])))
    for events in (session.subscribe(), session.stream("hi"), session.trace()):
        with pytest.raises(UsageError, match="write `async for`"):
            list(cast("Iterable[object]", events))
        with pytest.raises(UsageError, match="write `async with`"), cast("AbstractContextManager[object]", events):
            pass


async def test_a_stream_that_is_awaited_says_so(world: World) -> None:
    session = await world.supervisor.spawn(SessionSpec(model=ScriptedModel(["hi"])))
    for events in (session.subscribe(), session.stream("hi"), session.trace()):
        with pytest.raises(UsageError, match="by `await`; write `async with`"):
            await cast("Awaitable[object]", events)


EVENTS: dict[str, Event] = {
    "ApprovalRequired": ApprovalRequired("a", "c", "t", {}, "?", "p", 0, None),
    "AskUser": AskUser("q", "c", "?"),
    "MessageDelta": MessageDelta("x"),
    "ThinkingDelta": ThinkingDelta("x"),
    "ResponseComplete": ResponseComplete(AssistantMessage(())),
    "ToolExecutionStart": ToolExecutionStart("c", "t", {}),
    "ToolExecutionEnd": ToolExecutionEnd("c", "t", (), is_error=False),
    "AgentEnd": AgentEnd("p", "end", (), Usage()),
}


@each_case(EVENTS)
def test_a_field_of_an_event_by_another_name_warns_because_a_pattern_with_it_is_silent(kind: str) -> None:
    event = EVENTS[kind]
    for name, hint in OTHER_NAMES[kind].items():
        warned = pytest.warns(RuntimeWarning, match=re.escape(f"`{kind}` has no `{name}`: {hint}"))
        with warned as warnings_, pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(event, name)
        assert warnings_[0].filename == __file__
        meant = re.match(r"did you mean `(\w+)`\?", hint)
        assert meant is None or meant[1] in event.__struct_fields__


def test_a_pattern_with_a_field_of_another_name_is_not_silent() -> None:
    def is_decided(event: Event) -> bool:
        match event:
            case ApprovalRequired(id=_):  # type: ignore[misc]  # on purpose
                return True
            case _:
                return False

    with pytest.warns(RuntimeWarning, match="`ApprovalRequired` has no `id`: did you mean `approval_id`"):
        assert not is_decided(EVENTS["ApprovalRequired"])


def test_what_no_event_has_says_how_events_are_told_apart() -> None:
    for name, hint in OTHER_NAMES["Event"].items():
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(MessageDelta("x"), name)
    with warnings.catch_warnings(action="error"):
        assert getattr(AgentStart("p"), "delta", "") == ""  # as programs ask of events of any class
    assert copy.deepcopy(MessageDelta("x")) == MessageDelta("x")


def test_a_field_of_the_event_is_looked_for_in_it_and_not_in_the_envelope() -> None:
    envelope = Envelope("s", 1, 1, 0, 1, 1, MessageDelta("x"))
    with pytest.raises(AttributeError, match=r"its event has it; write `envelope\.event\.delta`"):
        envelope.delta  # type: ignore[attr-defined]  # noqa: B018 - on purpose
    assert copy.deepcopy(envelope) == envelope
    assert pickle.loads(pickle.dumps(envelope)) == envelope  # noqa: S301 - of this test


async def _dig() -> str:
    """Dig."""
    return "dug"


@each_case(OTHER_NAMES["tool"].items())
def test_an_option_of_a_tool_by_the_name_of_another_library_is_named(name: str, hint: str) -> None:
    with pytest.raises(BadTool, match=re.escape(f"there is no option `{name}`; {hint}")):
        tool(**{name: True})(_dig)  # type: ignore[call-overload]  # on purpose


@pytest.mark.parametrize("script", ["one", 3, None])
def test_a_script_that_is_no_list_says_what_it_is_a_list_of(script: Iterable[str]) -> None:
    with pytest.raises(WrongType, match="give a list; each element is a text, `say"):
        ScriptedModel(script)


async def test_a_prompt_in_the_form_of_another_library_says_what_is_taken(world: World) -> None:
    session = await world.supervisor.spawn(SessionSpec(model=ScriptedModel(["hi"])))
    with pytest.raises(UsageError, match="the text is a `dict`; use text, or a list of"):
        await session.ask({"messages": [{"role": "user", "content": "hi"}]})  # type: ignore[dict-item]  # on purpose


PLUGINS = {
    "a pair": ([("x", BudgetGuard())], 'Keyed\\("key", plugin\\)'),
    "a class": ([BudgetGuard], r"`BudgetGuard\(…\)`"),
}


@pytest.mark.parametrize(("plugins", "here"), PLUGINS.values(), ids=PLUGINS)
async def test_what_is_no_plugin_says_how_one_is_given(world: World, plugins: list[Plugin], here: str) -> None:
    with pytest.raises(BadPlugin, match=here):
        await world.supervisor.spawn(SessionSpec(model="demo", plugins=plugins))


@pytest.mark.parametrize("command", ["npx server", "npx -y @scope/server /tmp", ["npx server"]])
def test_a_command_line_in_one_text_is_no_command(command: str | list[str]) -> None:
    with pytest.raises(UsageError, match=r'McpServer\(\["npx"'):
        McpServer(command)
    McpServer("/opt/my tools/server")


def test_user_data_that_is_no_json_is_an_error_of_that_field() -> None:
    with pytest.raises(BadSpec, match=r"`user_data` holds .*object.* at \$\.db, and it is stored with the session"):
        SessionSpec(model="demo", user_data={"db": object()}).check()  # type: ignore[dict-item]  # on purpose


NAMES = {
    "claude-sonnet-5": "anthropic:claude-sonnet-5",
    "gpt-5.4": "openai:gpt-5.4",
    "anthropc:claude-sonnet-5": "anthropic:claude-sonnet-5",
    "Anthropic:claude-sonnet-5": "anthropic:claude-sonnet-5",
    "demoo": "demo",
    "claud-sonnet-5": "anthropic:claude-sonnet-5",
    "Claude-sonnet-5": "anthropic:claude-sonnet-5",
    "gemin-3-pro": "gemini:gemini-3-pro",
    "anthropic": "anthropic:…",
    "openai/gpt-5": "openai:gpt-5",
}


@pytest.mark.parametrize(("text", "meant"), NAMES.items())
async def test_a_model_that_is_misspelt_is_named_with_the_nearest_one(world: World, text: str, meant: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        await world.supervisor.spawn(SessionSpec(model=text))
    assert str(caught.value).startswith(f"there is no model `{text}` (did you mean `{meant}`?); known here: ")


async def test_a_model_that_is_like_none_is_answered_with_all(world: World) -> None:
    with pytest.raises(UnknownModel, match="there is no model `nope`; known here: `anthropic:…`"):
        await world.supervisor.spawn(SessionSpec(model="nope"))  # and not `openai:…`, which has the letters o, p, e
    with pytest.raises(UnknownModel, match="there is no model `nonsense`; known here: `anthropic:…`"):
        await world.supervisor.spawn(SessionSpec(model="nonsense"))


async def test_a_mode_that_is_none_is_refused(world: World) -> None:
    with pytest.raises(BadChoice, match="prompt_mode='ful' is not a choice; use one of `full`, `task`"):
        await world.supervisor.spawn(SessionSpec(model="demo", prompt_mode="ful"))  # type: ignore[arg-type]  # on purpose


def test_the_types_of_choices_are_the_choices() -> None:
    assert (get_args(When), get_args(Kill), get_args(SubscriptionPolicy)) == (WHENS, KILLS, POLICIES)
    assert get_args(Strategy) == STRATEGIES


async def test_two_readers_of_one_subscription_are_refused(world: World) -> None:
    session = await world.spawn(["hello"])
    async with session.subscribe() as events, trio.open_nursery() as nursery:
        nursery.start_soon(anext, events)
        await settle()
        with pytest.raises(AlreadyRead, match="subscribe once for each reader"):
            await anext(events)
        nursery.cancel_scope.cancel()
    async with session.subscribe() as events:
        with trio.move_on_after(1):
            await anext(events)
        await session.prompt("hi")
        assert (await anext(events)).session_id == session.id  # whoever was cancelled reads no more


async def test_a_subscription_that_was_left_is_not_read_any_more(world: World) -> None:
    session = await world.spawn(["hello"])
    async with session.subscribe() as events:
        await session.ask("hi")
    with pytest.raises(AlreadyLeft, match="subscribe again with `since=`"):
        await anext(events)
    async with session.trace() as steps:
        pass
    with pytest.raises(AlreadyLeft):
        await anext(steps)


async def test_two_readers_of_one_trace_are_refused(world: World) -> None:
    session = await world.spawn(["hello"])
    async with session.trace() as steps, trio.open_nursery() as nursery:
        nursery.start_soon(anext, steps)
        await settle()
        with pytest.raises(AlreadyRead):
            await anext(steps)
        nursery.cancel_scope.cancel()


async def test_what_a_plugin_remembers_is_found_by_its_name(world: World) -> None:
    plugins = [SecurityGuard(), BudgetGuard(max_tokens=10_000), Keyed("second", BudgetGuard(max_calls=3))]
    session = await world.spawn([say(calls=[call("dig")]), "done"], tools=[quick("dig")], plugins=plugins)
    await session.ask("go")
    state = session.inspect()
    assert (
        state.plugin_state("second")
        == state.plugin_states[[attached.key for attached in state.plugins].index("second")]
    )
    assert isinstance(state.plugin_state(BudgetGuard), Spent)
    assert state.plugin_state("BudgetGuard") == state.plugin_state(BudgetGuard)
    with pytest.raises(UnknownPlugin, match="third"):
        state.plugin_state("third")
    with pytest.raises(UnknownPlugin, match=r"no plugin `BudgetGard`; did you mean `BudgetGuard`\? \(attached: "):
        state.plugin_state("BudgetGard")


def test_what_a_probe_answers_is_among_the_tools() -> None:
    assert (NotStarted(), Unknown()) == (NotStarted(), Unknown())


@pytest.mark.parametrize("options", [{"temprature": 0.1}, {"temperature": "hot"}])
@pytest.mark.parametrize("model", [ScriptedModel(["hi"]), "demo"])
async def test_options_that_no_provider_takes_are_refused_without_a_provider_too(
    world: World, model: ScriptedModel | str, options: dict[str, Json]
) -> None:
    with pytest.raises(BadOptions, match="temperature"):
        await world.supervisor.spawn(SessionSpec(model=model, model_options=options))
    session = await world.supervisor.spawn(SessionSpec(model=model, model_options={"temperature": 0.1, "stop": ["x"]}))
    with pytest.raises(BadOptions, match="temperature"):
        await session.switch_model("demo", command=None, **options)


def _matched(item: object) -> str:
    match item:
        case AgentEnd():
            return "end"
        case MessageDelta(delta=delta):
            return delta
        case _:
            return ""


CHECKS: list[Callable[[object], object]] = [
    _matched,
    lambda item: isinstance(item, AgentEnd),
    lambda item: isinstance(item, AgentEnd | AgentAbort),
    lambda item: isinstance(item, (AgentEnd, AgentAbort)),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_of_an_envelope_for_an_event_warns_in_the_line_of_the_check(check: Callable[[object], object]) -> None:
    envelope = Envelope("s1", 1, 0, 0, 1, 1, AgentStart("p1"))
    with pytest.warns(RuntimeWarning, match="an `Envelope` is no `[A-Za-z]*`: match its `event`") as warned:
        assert not check(envelope)
    assert {warning.filename for warning in warned} == {__file__}


def test_a_check_of_an_event_and_one_that_tells_events_from_envelopes_are_silent() -> None:
    envelope = Envelope("s1", 1, 0, 0, 1, 1, MessageDelta("a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [check(envelope.event) for check in CHECKS] == ["a", False, False, False]
        assert not isinstance(envelope, Event | Ephemeral)
