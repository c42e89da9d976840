"""A pytest-trio fixture opens a supervisor with a tool that ignores cancellation: the test fails, and says why."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

SETTINGS = "[pytest]\ntrio_mode = true\n"

MODULE = '''
    import pytest
    import trio
    import trio.testing

    from agentrail import SessionSpec, open_supervisor, tool
    from agentrail.testing import ScriptedModel, call, say

    left = trio.Event()

    @tool
    async def deaf() -> str:
        """Heed nothing until the supervisor was left."""
        with trio.CancelScope(shield=True):
            await left.wait()
        return "at last"

    @pytest.fixture
    async def supervisor():
        try:
            async with open_supervisor(stop_within=0.5) as supervisor:
                yield supervisor
        finally:
            left.set()

    async def test_it(supervisor, {fixture}):
        model = ScriptedModel([say(calls=[call("deaf")]), "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[deaf]), "s")
        await session.prompt("go")
        await trio.testing.wait_all_tasks_blocked()
'''


@pytest.mark.parametrize("fixture", ["tmp_path", "autojump_clock"])
def test_a_fixture_with_a_supervisor_that_is_stuck_fails_its_test_and_names_the_place(
    tmp_path: Path, fixture: str
) -> None:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_it.py").write_text(dedent(MODULE).replace("{fixture}", fixture))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SupervisorStuck: the supervisor was left after" in done.stdout
    assert "task `tool deaf (s/c3)` at" in done.stdout
