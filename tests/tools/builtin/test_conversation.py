"""The built-in tools in whole sessions, with the real sandbox."""

from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.models import ToolMessage
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from agentrail.values.content import text_of
from tests.patience import PATIENCE


@pytest.mark.campaign
@pytest.mark.long
async def test_a_conversation_lists_reads_edits_and_runs_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("green tea\nblack tea\n")
    spec = SessionSpec(model="demo", tools=standard_tools(), working_dir=str(tmp_path))
    found: list[tuple[str, bool, str]] = []
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        for said in (
            "list the files",
            "read notes.txt",
            "replace green with white in notes.txt",
            "run sort notes.txt",
            "search for white",
            "write done to out/result.txt",
            "read missing.txt",
        ):
            reply = await session.ask(said)
            results = [message for message in reply.messages if isinstance(message, ToolMessage)]
            found += [(one.name, one.is_error, text_of(one.parts)) for one in results]
    assert found == [
        ("list_dir", False, "notes.txt  20 bytes"),
        ("read_file", False, "     1\tgreen tea\n     2\tblack tea"),
        ("edit_file", False, "edited `notes.txt`: 1 place"),
        ("shell", False, "black tea\nwhite tea"),
        ("grep", False, "notes.txt:1:white tea"),
        ("write_file", False, "created `out/result.txt`: 1 line, 4 bytes"),
        (
            "read_file",
            True,
            "cannot read `missing.txt`: there is no such file or folder; list the folder to see what there is",
        ),
    ]
    assert (tmp_path / "notes.txt").read_text() == "white tea\nblack tea\n"


async def test_a_session_uses_the_sandbox_that_it_was_given() -> None:
    sandbox = MemorySandbox()
    await sandbox.write("a.txt", b"tea")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", tools=standard_tools(), sandbox=sandbox))
        reply = await session.ask("read a.txt")
    assert [text_of(one.parts) for one in reply.messages if isinstance(one, ToolMessage)] == ["     1\ttea"]


@pytest.mark.long
async def test_a_job_in_the_background_dies_with_its_session(tmp_path: Path) -> None:
    named = tmp_path / "pid"
    command = f"trap '' TERM; echo $$ > {named}.new; mv {named}.new {named}; while true; do sleep 0.02; done"
    model = ScriptedModel([say(calls=[call("shell", {"command": command, "background": True})]), "It runs."])
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, tools=standard_tools(), working_dir=str(tmp_path))
        session = await supervisor.spawn(spec)
        assert (await session.ask("start it")).text == "It runs."
        with trio.fail_after(PATIENCE):
            while not named.exists():  # noqa: ASYNC110 - nobody sets an event for it
                await trio.sleep(0.01)
            process = trio.Path("/proc", named.read_text().strip())
            assert await process.exists()
            await session.stop("enough")
            while await process.exists():  # noqa: ASYNC110 - as above
                await trio.sleep(0.01)
