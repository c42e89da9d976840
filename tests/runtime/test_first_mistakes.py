"""Mistakes of new users: each gets an error that explains it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from agentrail import Continue, Plugin, SessionHandle, SessionSpec, connect, open_supervisor, tool
from agentrail.errors import BadSpec, NotEntered, NotOpened, UsageError
from agentrail.host import Host, Profile
from agentrail.models import Json, ToolMessage
from agentrail.plugins import Ask, BeforeRequest, CallService, Context
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from tests.coded import coded
from tests.kit import Element
from tests.runtime.world import World, settle


async def test_a_subscription_that_was_not_entered_says_so_instead_of_hanging(world: World) -> None:
    session = await world.spawn(["hello"])
    with pytest.raises(NotEntered, match="async with"):
        async for _ in session.subscribe():
            pass


OPENED: Final[dict[str, Callable[[], AbstractAsyncContextManager[object]]]] = {
    "open a supervisor": open_supervisor,
    "serve a host": lambda: Host([Profile("desk", SessionSpec(model="demo"))]).serving(),
    "connect to a host": lambda: connect("http://127.0.0.1:1", "a-key"),
}


@pytest.mark.parametrize("attempt", OPENED)
def test_what_is_opened_under_asyncio_says_which_run_it_needs(attempt: str) -> None:
    async def main() -> None:
        async with OPENED[attempt]():
            pass

    with pytest.raises(
        UsageError, check=coded("no-trio-run"), match=rf"cannot {attempt} here: no Trio run; .*trio\.run"
    ):
        asyncio.run(main())


async def test_a_host_that_is_not_entered_says_how() -> None:
    opening: Any = Host([Profile("desk", SessionSpec(model="demo"))]).serving()  # type checkers refuse what follows
    with pytest.raises(NotOpened, match=r"cannot use `url` here: .*; write `async with host\.serving\(\) as serving:`"):
        _ = opening.url
    with pytest.raises(NotOpened, match="cannot use `await` here"):
        await opening
    with pytest.raises(NotOpened, match="cannot use `with` here"), opening:
        pass


async def test_a_connection_that_is_not_entered_says_how() -> None:
    opening: Any = connect("http://127.0.0.1:1", "a-key")
    text = r"cannot use `spawn` here: .*; write `async with connect\(url, key\) as supervisor:`"
    with pytest.raises(NotOpened, match=text):
        await opening.spawn("desk")


def test_a_specification_is_made_by_names_alone() -> None:
    with pytest.raises(TypeError, match="`SessionSpec` takes 0 values by place, and not 1; name the others"):
        SessionSpec("demo")  # type: ignore[arg-type, call-arg, unused-ignore]  # the mistake; checkers name it differently
    assert SessionSpec(model="demo").model == "demo"


def asking(kind: str, nursery: trio.Nursery, sessions: list[SessionHandle]) -> object:
    """Return a tool that asks the first of *sessions*, in one of several ways."""

    @tool
    async def in_its_task() -> str:
        """Ask."""
        return (await sessions[0].ask("and?")).text

    @tool
    async def in_a_task_below() -> str:
        """Ask."""
        async with trio.open_nursery() as below:
            below.start_soon(sessions[0].ask, "and?")
        return "asked"

    @tool
    def from_a_thread() -> str:
        """Ask."""
        return trio.from_thread.run(sessions[0].ask, "and?").text

    @tool
    async def later() -> str:  # noqa: ASYNC124 - a tool is async
        """Ask, but do not wait for the answer."""
        nursery.start_soon(sessions[0].ask, "and?")
        return "asked"

    return {new_value.spec.name: new_value for new_value in (in_its_task, in_a_task_below, from_a_thread, later)}[kind]


WAYS: Final = ["in_its_task", "in_a_task_below", "from_a_thread"]


async def answer_to(kind: str, *, is_own: bool) -> str:
    """Return the result of a tool that asks its *is_own* session, or another one."""
    sessions: list[SessionHandle] = []
    async with trio.open_nursery() as nursery, open_supervisor() as supervisor:
        model = ScriptedModel([say(calls=[call(kind)]), "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[asking(kind, nursery, sessions)]), "s")
        sessions.append(session if is_own else await supervisor.spawn(SessionSpec(model=ScriptedModel(["another"]))))
        await session.ask("go")
        (result,) = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        return result


@pytest.mark.parametrize("kind", WAYS)
def test_a_tool_that_asks_its_own_session_gets_an_error_instead_of_waiting_forever(kind: str) -> None:
    result = trio.run(partial(answer_to, kind, is_own=True))  # a virtual clock would not wait for the thread
    assert "AsksItself: " in result
    assert f"`{kind}` cannot `ask` session `s`, whose turn waits for it; return what its model is to know" in result


@pytest.mark.parametrize("kind", WAYS)
def test_a_tool_may_ask_another_session(kind: str) -> None:
    assert trio.run(partial(answer_to, kind, is_own=False)) in {"another", "asked"}


async def test_what_a_tool_has_started_and_does_not_wait_for_may_ask_its_session(world: World) -> None:
    sessions: list[SessionHandle] = []
    script: list[Element] = [say(calls=[call("later")]), "done", "and done"]
    session = await world.spawn(script, tools=[asking("later", world.nursery, sessions)])
    sessions.append(session)
    assert (await session.ask("go")).text == "done"
    await settle()
    assert session.messages()[-1].text == "and done"


class Curious(Plugin[None]):
    """Asks a service before each request."""

    critical = True

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(CallService("asks")) if hook.answer is None else Continue()


async def test_a_service_that_asks_its_own_session_gets_the_error_too(world: World) -> None:
    sessions: list[SessionHandle] = []
    refused: list[str] = []

    async def asks(_: Json) -> Json:
        with pytest.raises(UsageError, check=coded("asks-itself"), match="`asks` cannot `ask` session `s`"):
            await sessions[0].ask("and?")
        refused.append("s")
        return "asked"

    session = await world.spawn(["done"], "s", plugins=[Curious()], services={"asks": asks})
    sessions.append(session)
    assert (await session.ask("go")).text == "done"
    assert refused == ["s"]


async def test_a_working_dir_that_is_not_there_is_an_error_at_spawn(world: World, tmp_path: Path) -> None:
    for folder in (str(tmp_path / "missing"), "~/missing", __file__):
        with pytest.raises(BadSpec, match=r"its `working_dir` is '.+', where no folder is; make it, or name another"):
            await world.spawn(["hello"], working_dir=folder)
    session = await world.spawn(["hello"], working_dir=str(tmp_path))
    assert (await session.ask("go")).text == "hello"
    session = await world.spawn(["hello"], working_dir="missing", sandbox=MemorySandbox())
    assert (await session.ask("go")).text == "hello"
