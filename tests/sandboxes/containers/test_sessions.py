"""The container of a session: one for each, shared with its sub-agents, paused in its sleep, removed at its end."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.models import ToolMessage
from agentrail.sandboxes import Command
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.docs.sources import ROOT
from tests.kit import Element
from tests.patience import PATIENCE
from tests.sandboxes.containers.image import IMAGE
from tests.sandboxes.containers.kinds import container_at, containers, podman

__all__ = ["podman"]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("podman")]


def status(name: str) -> str:
    words = ("podman", "container", "inspect", "--format={{.State.Status}}", name)
    return subprocess.run(words, capture_output=True, check=False, text=True).stdout.strip()  # noqa: S603 - of the machine


def shell_call(line: str) -> Element:
    return say(calls=[call("shell", {"command": line})])


def spec_in(folder: Path, *turns: Element, **options: object) -> SessionSpec:
    sandbox = container_at(folder)
    fields = {"model": ScriptedModel(list(turns)), "tools": standard_tools(), "sandbox": sandbox, **options}
    return SessionSpec(**fields)  # type: ignore[arg-type]  # it checks them


async def until(wanted: str, name: str) -> None:
    with trio.fail_after(PATIENCE):
        while status(name) != wanted:  # noqa: ASYNC110 - only the engine knows
            await trio.sleep(0.05)


async def test_each_session_of_a_specification_has_a_container_of_its_own(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, shell_call("touch /tmp/a-file; ls /tmp"), "done", shell_call("ls /tmp"), "done")
    async with open_supervisor() as supervisor:
        first = await supervisor.spawn(spec, "first")
        await first.ask("go")
        assert len(containers(tmp_path)) == 1
        second = await supervisor.spawn(spec, "second")
        reply = await second.ask("go")
        assert "a-file" not in str(reply.messages)
        assert len(containers(tmp_path)) == 2
        await first.stop()
        with trio.fail_after(PATIENCE):
            while len(containers(tmp_path)) != 1:  # noqa: ASYNC110 - only the engine knows
                await trio.sleep(0.05)
    assert containers(tmp_path) == set()


async def test_the_container_ends_with_the_supervisor(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec_in(tmp_path, shell_call("true"), "done"))
            await session.ask("go")
            assert len(containers(tmp_path)) == 1
            scope.cancel()
            await trio.sleep_forever()
    assert containers(tmp_path) == set()


async def test_a_sub_agent_uses_that_of_its_session(tmp_path: Path) -> None:
    clerk = SessionSpec(
        description="Looks.", model=ScriptedModel([shell_call("touch /tmp/of-clerk"), "done"]), tools=standard_tools()
    )
    task = call("task", {"agent": "clerk", "description": "look", "prompt": "look"})
    turns = (say(calls=[task]), shell_call("ls /tmp/of-clerk && echo seen"), "done")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_in(tmp_path, *turns, agents={"clerk": clerk}))
        reply = await session.ask("go")
        assert "seen" in str(reply.messages)
        assert len(containers(tmp_path)) == 1
    assert containers(tmp_path) == set()


async def test_it_is_paused_while_the_session_sleeps_and_goes_on_after_it(tmp_path: Path) -> None:
    turns = (shell_call("touch /tmp/one"), "done", shell_call("ls /tmp/one && echo seen"), "done")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_in(tmp_path, *turns, hibernate_after=0.5))
        await session.ask("go")
        [name] = containers(tmp_path)
        await until("paused", name)
        reply = await session.ask("go on")
        assert "seen" in str(reply.messages)
        assert containers(tmp_path) == {name}
        await until("paused", name)
        await session.stop()
        await until("", name)


async def test_a_container_that_is_kept_stays_and_nothing_is_in_the_folder(tmp_path: Path) -> None:
    sandbox = container_at(tmp_path, keep=True)
    await sandbox.execute(Command("true"))
    name = str(sandbox.container)
    try:
        await sandbox.close()
        assert status(name) == "running"
        assert name not in containers(tmp_path)  # those that a later process removes
        assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a few names
    finally:
        words = ("podman", "rm", "--force", name)
        subprocess.run(words, check=True, capture_output=True)  # noqa: ASYNC221, S603 - of the machine


def test_the_example_shows_what_it_says() -> None:
    example = ROOT / "docs" / "examples" / "container.py"
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(example), f"podman:{IMAGE}"], capture_output=True, text=True, check=True
    )
    text = ast.get_docstring(ast.parse(example.read_text())) or ""
    assert run.stdout == textwrap.dedent(text.partition("podman:IMAGE`.\n\n")[2]) + "\n"


async def test_a_shell_begins_where_the_last_command_left_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    turns = (shell_call("cd sub && export A=1"), shell_call("pwd; echo $A; cd /etc"), shell_call("pwd"), "done")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_in(tmp_path, *turns))
        await session.ask("go")
        moved, later, last = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert moved == "[later commands begin in 'sub']"
    folder, value, note = later.splitlines()
    assert folder.endswith("/sub")
    assert value == "1"
    assert note == "['/etc' is none of the folders for files; later commands begin in 'sub']"
    assert last == folder
