"""Calls the public methods of handles and supervisors with values of any type: what is called is found by reflection.

A call returns, or raises an error of the library. Whatever was given, the session answers a prompt afterwards, and no
task has crashed.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from inspect import Parameter
from typing import Final, Protocol, TypeAlias, cast, get_args

import trio

from agentrail import (
    CrashReport,
    Options,
    Plugin,
    RemoteSession,
    RemoteSupervisor,
    SessionHandle,
    SessionSpec,
    Supervisor,
    aio,
    sync,
)
from agentrail.api.command_checks import HandleCommand
from agentrail.core.vocabulary.commands import ActorCommand, Command
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.errors import AgentrailError, BrokenContractError
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel
from agentrail.tools import tool
from agentrail.values.value import Value
from property_tests import hostile
from tests.kit import CompactSent

Chance: TypeAlias = random.Random

PATIENCE: Final = 100_000.0
"""Seconds of virtual time after which a call counts as hanging."""

ENDING: Final = frozenset({"stop", "drain", "delete", "redact", "stop_child", "shutdown", "close"})
"""Methods that may end the session, or park it."""

WAITING: Final = frozenset({"reply", "wait"})
"""Methods that wait for something else."""

TEXTS: Final = (
    "p1",
    "a2",
    "m1",
    "mine",
    "dig",
    "demo",
    "HumanApproval",
    "gap",
    "end",
    "none",
    "*",
    "x" * 300,
    "",
    "\0",
)
"""Texts that may name something."""

COMMANDS: Final = (*INPUTS, *get_args(Command | ActorCommand), *HandleCommand.__subclasses__(), HandleCommand)


@tool
def dig() -> str:
    """Dig."""
    return "dug"


class Idle(Plugin[None]):
    """A plugin that does nothing."""


def odd_value(chance: Chance) -> object:
    """Draw any value: a hostile one, a text that may name something, or a command with odd fields."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind == 1:
        return odd_command(chance)
    drawn = hostile.draw(chance)
    hostile.BREAKING[0] = ValueError  # other errors, such as `SystemExit`, are the program's to see
    return drawn


def odd_command(chance: Chance) -> object:
    """Draw an input, command or message of any class, with odd values in some of its fields."""
    cls = chance.choice(COMMANDS)
    fields: dict[str, object] = {}
    for name in cls.__struct_fields__:
        if chance.randrange(2):
            fields[name] = hostile.draw(chance) if chance.randrange(3) else chance.choice(TEXTS)
    hostile.BREAKING[0] = ValueError
    try:
        return cast("Callable[..., Value]", cls)(**fields)
    except Exception:  # noqa: BLE001 - a field is missing, or checks itself what it holds
        return CompactSent(cast("str", hostile.draw_number(chance)))


def public_methods(owner: type[object]) -> Iterator[str]:
    """Yield the names of the public methods of *owner*; properties are none."""
    for name in dir(owner):
        if not name.startswith("_") and inspect.isroutine(inspect.getattr_static(owner, name)):
            yield name


VALID: Final[Mapping[str, object]] = {
    "text": "hi",
    "given": CompactSent(),
    "spec": SessionSpec(model="demo"),
    "service": trio.sleep_forever,
    "within": 0.0,
    "seconds": 0.0,
}
"""Arguments that a method needs, by name; any other one is a text."""


def arguments(method: Callable[..., object], chance: Chance) -> tuple[list[object], dict[str, object]]:
    """Return arguments for *method*: what it needs, with an odd value for at least one parameter."""
    parameters = list(inspect.signature(method).parameters.values())
    odd = chance.choice(parameters).name if parameters else ""
    args: list[object] = []
    named: dict[str, object] = {}
    for parameter in parameters:
        is_odd = parameter.name == odd or not chance.randrange(6)
        if not is_odd and parameter.default is not Parameter.empty:
            continue
        value = odd_value(chance) if is_odd else VALID.get(parameter.name, "x")
        match parameter.kind:
            case Parameter.VAR_POSITIONAL:
                args.append(value)
            case Parameter.VAR_KEYWORD:
                named["option"] = value
            case Parameter.POSITIONAL_ONLY | Parameter.POSITIONAL_OR_KEYWORD if parameter.default is Parameter.empty:
                args.append(value)
            case _:
                named[parameter.name] = value
    return args, named


def check_error(error: BaseException) -> None:
    """Raise *error* again unless it is one that the library raises for a wrong argument."""
    is_bug = type(error) is BrokenContractError or type(error).__name__ in {"CommandSetAside", "SessionCrashed"}
    if not isinstance(error, AgentrailError) or is_bug:
        raise error
    str(error)


async def attempt(owner: object, name: str, chance: Chance) -> None:
    """Call a method of *owner* with odd arguments, and await what it returns."""
    method = cast("Callable[..., object]", getattr(owner, name))
    args, named = arguments(method, chance)
    try:
        returned = method(*args, **named)
        if inspect.isawaitable(returned):
            returned = await cast("Awaitable[object]", returned)
        elif hasattr(returned, "__aenter__"):
            async with cast("AbstractAsyncContextManager[object]", returned):
                pass
    except Exception as error:  # noqa: BLE001 - looked at by `check_error`
        error.add_note(f"{type(owner).__name__}.{name}{hostile_text(args)}, {hostile_text(named)}")
        check_error(error)


def hostile_text(value: object) -> str:
    """Return *value* as text, however it is made."""
    try:
        return repr(value)[:300]
    except BaseException:  # noqa: BLE001 - its own code raises
        return "(cannot be shown)"


def spec(**fields: object) -> SessionSpec:
    """Return the specification of a session that is tried."""
    whole: dict[str, object] = {
        "model": ScriptedModel(["well"], repeat_last=True),
        "tools": [dig],
        "plugins": [Idle(), HumanApproval(tools=["dig"])],
    }
    return cast("Callable[..., SessionSpec]", SessionSpec)(**{**whole, **fields})


class Owner(Protocol):
    """Interface: a supervisor, as far as it is needed here."""

    def crashes(self) -> tuple[CrashReport, ...]:
        """Return the reports of crashes."""
        ...


HANDLES: Final[tuple[type[object], ...]] = (SessionHandle, aio.SessionHandle, sync.SessionHandle, RemoteSession)
SUPERVISORS: Final[tuple[type[object], ...]] = (Supervisor, aio.Supervisor, sync.Supervisor, RemoteSupervisor)


async def check_handle(supervisor: Supervisor, session: SessionHandle, name: str, seed: int) -> SessionHandle:
    """Call a method of a session's handle; return the handle of a session that answers afterwards."""
    with trio.fail_after(PATIENCE):
        await attempt(session, name, random.Random(seed))
    return await alive(supervisor, session)


async def alive(supervisor: Supervisor, session: SessionHandle) -> SessionHandle:
    """Check that *session* answers a prompt, unless a call has ended it for good; then return a new one."""
    assert supervisor.crashes() == ()
    status = session.status()
    if status.phase == "ended":
        return await supervisor.spawn(spec())
    with trio.fail_after(PATIENCE):
        await session.resume()
        with suppress(AgentrailError):
            await session.abort(clear_queue=True)
        await session.switch_model("demo")
        assert (await session.ask("well?")).stop_reason
    assert supervisor.crashes() == ()
    return session


def spec_fields() -> tuple[str, ...]:
    """Return the names of all fields of a specification, its options included."""
    fields = inspect.signature(SessionSpec).parameters
    return tuple(dict.fromkeys((*fields, *Options.__struct_fields__)))
