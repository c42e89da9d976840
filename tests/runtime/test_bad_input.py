"""A wrong argument of any call raises a typed error that says what to do, and affects no other session."""

# ruff: noqa: ARG001 - the session beside it answers before and after, whatever the test does with it

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import repeat

import pytest
import trio
from attrs import Factory, define, field, frozen

from agentrail import Context, Continue, Options, Plugin, SessionHandle, SessionSpec
from agentrail.api.command_checks import EditTools, HandleCommand
from agentrail.core.vocabulary.commands import (
    ChangeToolsSent,
    LabelSent,
    SwitchModelSent,
)
from agentrail.core.vocabulary.inputs import CrashedTooOften, SessionOpened, SleepDue
from agentrail.errors import (
    AgentrailError,
    BadChoice,
    BadOptions,
    BadSpec,
    BadTool,
    BrokenContractError,
    CommandConflict,
    MailboxFull,
    QueueFull,
    RefusedError,
    SessionExists,
    SessionNotAlive,
    StateNotStorable,
    SteeringQueueFull,
    ToolExists,
    UnknownApproval,
    UnknownModel,
    UnknownPlugin,
    UnknownPrompt,
    UnknownSession,
    UnknownTool,
    UsageError,
    WrongType,
)
from agentrail.events import PluginError
from agentrail.models import Text
from agentrail.plugins import AnyPlugin, BeforePrompt
from agentrail.runtime.handle import ask_at_once, send_command
from agentrail.testing import ScriptedModel, stall
from agentrail.values.untrusted_values import TEN_YEARS
from tests.kit import AbortSent, ApproveSent, PromptSent
from tests.runtime.tools import quick
from tests.runtime.world import World, settle, spec_of


@pytest.fixture
async def bystander(world: World) -> AsyncIterator[SessionHandle]:
    """Yield a session that has to answer before and after the test of another session."""
    session = await world.spawn(ScriptedModel(["fine"], repeat_last=True), "bystander")
    assert (await session.ask("how are you?")).text == "fine"
    yield session
    assert (await session.ask("and now?")).text == "fine"


async def refused(
    doing: Awaitable[object], error: type[AgentrailError] | str, branch: type[AgentrailError], *says: str
) -> None:
    with pytest.raises(branch) as raised:
        await doing
    assert raised.value.code == error if isinstance(error, str) else isinstance(raised.value, error)
    for say in says:
        assert say in str(raised.value)


# Sessions that are not there


async def test_an_unknown_session(world: World, bystander: SessionHandle) -> None:
    with pytest.raises(UnknownSession, match=r"no session `nobody` here; `supervisor.sessions\(\)` lists"):
        world.supervisor.session("nobody")


CALLS: dict[str, Callable[[SessionHandle], Awaitable[object]]] = {
    "prompt": lambda session: session.prompt("hi"),
    "ask": lambda session: session.ask("hi"),
    "ask_at_once": lambda session: ask_at_once(session, "hi"),
    "steer": lambda session: session.steer("hi"),
    "abort": lambda session: session.abort(),
    "approve": lambda session: session.approve("x"),
    "reject": lambda session: session.reject("x"),
    "respond": lambda session: session.respond("x", "y"),
    "switch_model": lambda session: session.switch_model("demo"),
    "attach_tools": lambda session: session.attach_tools(quick()),
    "detach_tools": lambda session: session.detach_tools("quick"),
    "replace_tools": lambda session: session.replace_tools(quick()),
    "attach_plugin": lambda session: session.attach_plugin(Limits()),
    "detach_plugin": lambda session: session.detach_plugin("Limits"),
    "withdraw": lambda session: session.withdraw("p1"),
    "compact": lambda session: session.compact(),
    "stop": lambda session: session.stop(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_dead_session(world: World, bystander: SessionHandle, name: str) -> None:
    session = await world.spawn([], "dead")
    await session.stop("enough")
    await settle()
    await refused(CALLS[name](session), SessionNotAlive, UsageError, "`dead` has ended (enough)", "spawn a new one")


async def test_two_sessions_with_one_id(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], "bystander"), SessionExists, UsageError, "`bystander`", "another id")


# Specifications


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        (SessionSpec(), "model", 'use model="demo"'),
        (SessionSpec(model=" "), "model", 'use model="demo"'),
        (SessionSpec(model=42), "model", "`int`"),  # type: ignore[arg-type]  # on purpose
        (SessionSpec(model="demo", max_rounds=0), "max_rounds", "at least 1"),
        (SessionSpec(model="demo", stall_timeout=-1), "stall_timeout", "at least"),
        (SessionSpec(model="demo", stall_timeout=float("nan")), "stall_timeout", "is nan; it must be a finite number"),
        (SessionSpec(model="demo", max_rounds="a"), "max_rounds", "is 'a'; it must be a whole number"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", max_rounds=2.5), "max_rounds", "whole number"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", max_rounds=None), "max_rounds", "whole number"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", max_turn_seconds="1"), "max_turn_seconds", "number"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", max_turn_seconds=-1), "max_turn_seconds", "at least 0"),
        (SessionSpec(model="demo", context_window=1.5), "context_window", "whole number"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", system=42), "system", "must be text"),  # type: ignore[arg-type]
        (SessionSpec(model="demo", system="\ud800"), "system", "surrogate"),
        (SessionSpec(model="demo", working_dir=None), "working_dir", "must be text"),  # type: ignore[arg-type]
    ],
)
async def test_a_specification_that_cannot_be_run(world: World, spec: SessionSpec, field: str, says: str) -> None:
    await refused(world.supervisor.spawn(spec), BadSpec, UsageError, f"`{field}`", says)


class Whole(int):
    """An `int` that is equal to a default and not the same object."""


class Decimal(float):
    """A `float` that is equal to a default and not the same object."""


def test_a_default_is_a_figure_that_is_taken() -> None:
    defaults = Options()
    numbers: dict[str, object] = {name: getattr(defaults, name) for name in Options.__struct_fields__}
    wholes = {name: Whole(number) for name, number in numbers.items() if type(number) is int}
    decimals = {name: Decimal(found_number) for name, found_number in numbers.items() if type(found_number) is float}
    assert len(wholes) > 10
    assert len(decimals) > 5
    spec = SessionSpec(model="demo").but(**wholes, **decimals)
    spec.check()  # the default objects themselves are not looked at
    assert spec.options == defaults
    remaining = {type(getattr(spec.options, name)) for name in (*wholes, *decimals)}
    assert remaining == {int, float}


def test_specifications_with_the_same_figures_share_them() -> None:
    assert SessionSpec(model="demo").options is SessionSpec(model="demo", system="another").options
    changed = [SessionSpec(model="demo", max_rounds=turns, stall_timeout=1e300).options for turns in (7, 7, 8)]
    assert changed[0] is changed[1]
    assert changed[0] == Options(max_rounds=7, stall_timeout=TEN_YEARS)
    assert changed[2].max_rounds == 8


NO_MODEL = "; give a name, or an object with `name` and `async def stream(self, request, emit)`"


@pytest.mark.parametrize("expected", [None, 3, object()])
async def test_what_is_no_model(bystander: SessionHandle, expected: object) -> None:
    text = f"cannot take a `{type(expected).__name__}`, which has no method `stream`, as `model`{NO_MODEL}"
    await refused(bystander.switch_model(expected), WrongType, UsageError, text)  # type: ignore[arg-type]  # a mistake


async def test_an_unknown_model(world: World, bystander: SessionHandle) -> None:
    await refused(world.supervisor.spawn(spec_of("nobody:x")), UnknownModel, UsageError, "`nobody:x`", "`demo`")
    await refused(bystander.switch_model("nobody"), UnknownModel, UsageError, "`nobody`")


async def test_another_model_of_the_same_name(world: World) -> None:
    session = await world.spawn(["one"])
    await refused(session.switch_model(ScriptedModel(["two"])), "model-exists", UsageError, "`scripted`")
    assert (await session.ask("hi")).text == "one"


async def test_what_is_no_tool(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], tools=[42]), BadTool, UsageError)
    await refused(bystander.attach_tools(42), BadTool, UsageError)


async def test_two_tools_of_one_name(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], tools=[quick(), quick()]), ToolExists, UsageError, "`quick`")
    await bystander.attach_tools(quick())
    await refused(bystander.attach_tools(quick("new"), quick()), ToolExists, UsageError, "`replace_tools`")
    assert set(bystander.inspect().tools) == {"quick"}
    await refused(bystander.detach_tools("nobody"), UnknownTool, UsageError, "`nobody`", "`quick`")


async def test_two_plugins_of_one_class(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], plugins=[Limits(), Limits()]), "plugin-exists", UsageError, "`Limits`", "`Keyed(")
    await bystander.attach_plugin(Limits())
    await refused(bystander.attach_plugin(Limits()), "plugin-exists", UsageError)
    await refused(bystander.detach_plugin("Nobody"), UnknownPlugin, UsageError, "`Nobody`", "`Limits`")


# Queues


async def test_full_queues(world: World, bystander: SessionHandle) -> None:
    session = await world.spawn([stall()], max_prompt_queue=1, max_steering_queue=1)
    await session.prompt("open")
    await session.prompt("queued")
    await session.steer("one")
    await refused(session.prompt("more"), QueueFull, RefusedError, "(1)", "wait for a turn to end")
    await refused(session.ask("more"), QueueFull, RefusedError, "(1)", "wait for a turn to end")
    await refused(session.steer("two"), SteeringQueueFull, RefusedError, "(1)")


@pytest.mark.long
async def test_a_full_mailbox(world: World, bystander: SessionHandle) -> None:
    session = await world.spawn(ScriptedModel(["ok"], repeat_last=True))
    errors: list[MailboxFull] = []

    async def prompt() -> None:
        try:
            await ask_at_once(session, "hi")
        except MailboxFull as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(prompt)
    assert all("64 messages" in str(error) for error in errors)


# Decisions


async def test_unknown_approvals(bystander: SessionHandle) -> None:
    await refused(bystander.approve("x"), UnknownApproval, UsageError, "`x`", "`session.status().held`")
    await refused(bystander.reject("x"), UnknownApproval, UsageError)
    await refused(bystander.respond("x", "y"), UnknownApproval, UsageError)
    await refused(bystander.withdraw("x"), UnknownPrompt, UsageError, "`session.queued()`")


async def test_a_command_id_used_twice(bystander: SessionHandle) -> None:
    await bystander.prompt("one", command="id")
    await refused(bystander.prompt("two", command="id"), CommandConflict, UsageError, "`id`")


async def test_a_policy_that_is_no_choice(world: World, bystander: SessionHandle) -> None:
    with pytest.raises(BadChoice, match="coalesce"):
        bystander.subscribe(policy="whatever")  # type: ignore[arg-type]  # on purpose
    spec = SessionSpec(model="demo", on_prompt_while_held="shrug")
    await refused(world.supervisor.spawn(spec), BadChoice, UsageError, "`supersede`")


# Plugins


def check_most(_plugin: object, _field: object, most: int) -> None:
    if most < 0:
        raise ValueError(most)
    if most > 100:
        raise LookupError(most)


@frozen
class Limits(Plugin):
    most: int = field(default=1, validator=check_most)


@pytest.mark.parametrize(("option", "expected"), [("most", -1), ("most", 1000), ("least", 1)])
async def test_wrong_options(bystander: SessionHandle, option: str, expected: int) -> None:
    await bystander.attach_plugin(Limits())
    await refused(
        bystander.update_plugin(Limits, command=None, pin=False, **{option: expected}),
        BadOptions,
        UsageError,
        "`Limits`",
    )
    assert bystander.inspect().plugins[0].options == {"most": 1}
    await refused(bystander.update_plugin("Nobody"), UnknownPlugin, UsageError, "`Nobody`")


@define(eq=False)
class Pile:
    things: list[object] = Factory(list)


class Keeper(Plugin[object]):
    def init(self, ctx: Context) -> object:
        return Pile()


class LateKeeper(Plugin[object]):
    def init(self, ctx: Context) -> object:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: object, ctx: Context) -> Continue[object]:
        return Continue(Pile())


class Nonsense(Plugin):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        return 42  # type: ignore[return-value]  # on purpose


class BadInit(Plugin):
    def init(self, ctx: Context) -> None:
        raise KeyError("what")


async def test_a_plugin_whose_state_cannot_be_stored(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], plugins=[Keeper()]), StateNotStorable, BrokenContractError, "`Keeper`")


@pytest.mark.parametrize("plugin", [LateKeeper(), Nonsense()])
async def test_a_plugin_that_breaks_its_contract_later(
    world: World,
    bystander: SessionHandle,
    plugin: AnyPlugin,
) -> None:
    session = await world.spawn(["ok"], plugins=[plugin])
    assert (await session.ask("go")).text == "ok"
    await settle()
    assert world.heard(session).only(PluginError).plugin == plugin.key


async def test_a_plugin_that_cannot_begin(world: World, bystander: SessionHandle) -> None:
    await refused(world.spawn([], plugins=[BadInit()]), RefusedError, RefusedError, "`BadInit`", "KeyError")


@pytest.mark.parametrize("plugins", [[42], [Limits], ["Limits"]])
async def test_what_is_no_plugin(world: World, bystander: SessionHandle, plugins: list[object]) -> None:
    await refused(world.spawn([], plugins=plugins), UsageError, UsageError)
    await refused(bystander.attach_plugin(plugins[0]), UsageError, UsageError)  # type: ignore[arg-type]  # on purpose


# What a caller sends is checked before a letter is posted


NO_COMMANDS: list[object] = [
    "hello",
    None,
    5,
    ["hello"],
    object(),
    SleepDue(),
    SessionOpened(),
    CrashedTooOften("never"),
    PromptSent((Text("hello"),)),
    ChangeToolsSent(5),  # type: ignore[arg-type]  # on purpose, as those below
    SwitchModelSent("demo", options=5),  # type: ignore[arg-type]
    AbortSent(kill_tools="some"),
    LabelSent(add=5),  # type: ignore[arg-type]
    ApproveSent("a1", args={"x": object()}),  # type: ignore[dict-item]
    EditTools("detach", ([],)),
    EditTools("attach", 5),  # type: ignore[arg-type]
    HandleCommand(),
]


async def test_what_is_no_command_is_refused_and_the_session_goes_on(bystander: SessionHandle, world: World) -> None:
    for command in NO_COMMANDS:
        with pytest.raises(UsageError):
            await send_command(bystander, command, None)  # type: ignore[arg-type]
    assert world.supervisor.crashes() == ()


async def test_a_command_that_only_the_handle_makes_names_the_method_that_does(bystander: SessionHandle) -> None:
    with pytest.raises(WrongType, match="cannot take a `SwitchModelSent` as `given`; give its arguments to `switch_m"):
        await send_command(bystander, SwitchModelSent("demo"), None)


async def test_an_iterator_that_never_ends_is_refused(bystander: SessionHandle) -> None:
    await refused(bystander.label(repeat("red")), WrongType, UsageError, "more than 10000 items", "`add`")
    await refused(bystander.prompt(repeat(Text("hi"))), "bad-message", UsageError, "more than 10000")


class Lying(str):
    """A text that says that it is ASCII, and is equal to everything."""

    __slots__ = ()

    def isascii(self) -> bool:
        return True

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = str.__hash__


async def test_a_subclass_of_text_counts_as_the_plain_text_that_it_holds(bystander: SessionHandle) -> None:
    await refused(bystander.prompt(Lying("\ud800")), "bad-message", UsageError, "half a surrogate pair")
    await refused(bystander.steer("hi", when=Lying("soon")), BadChoice, UsageError, "a `Lying`")  # type: ignore[arg-type]
    await bystander.ask(Lying("plain"), command=Lying("once"))
    assert all(type(message.text) is str for message in bystander.messages())


async def test_an_object_whose_own_code_raises_is_refused(bystander: SessionHandle) -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            raise ZeroDivisionError(name)

    await refused(bystander.attach_tools(Broken()), "argument-raised", UsageError, "ZeroDivisionError", "`tools`")
