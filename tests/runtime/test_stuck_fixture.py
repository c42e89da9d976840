"""A pytest-trio fixture opens a supervisor with a tool that ignores cancellation: the test fails, and says why."""

import re
import subprocess
import sys
from textwrap import dedent

import pytest

pytestmark = pytest.mark.long

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

    async def test_with_{fixture}(supervisor, {fixture}):
        model = ScriptedModel([say(calls=[call("deaf")]), "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[deaf]), "s")
        await session.prompt("go")
        await trio.testing.wait_all_tasks_blocked()
'''


FIXTURES = ("tmp_path", "autojump_clock")


@pytest.fixture(scope="module")
def pytest_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest says of one test with each fixture, all in one process."""
    folder = tmp_path_factory.mktemp("stuck")
    (folder / "pytest.ini").write_text(SETTINGS)
    for fixture in FIXTURES:
        (folder / f"test_{fixture}.py").write_text(dedent(MODULE).replace("{fixture}", fixture))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_fixture_with_a_supervisor_that_is_stuck_fails_its_test_and_names_the_place(
    pytest_output: str, fixture: str
) -> None:
    (report,) = re.findall(
        rf"^_+ test_with_{fixture} _+$(.*?)(?=^[_=]+ [a-z ]+ [_=]+$)", pytest_output, re.DOTALL | re.MULTILINE
    )
    assert "SupervisorStuck: the supervisor was left after" in report
    assert "task `tool deaf (s/c3)` at" in report
