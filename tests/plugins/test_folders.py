"""`SecurityGuard` has the session look for blocked names in what git shows, and judges by the answer."""

import pytest
import trio

from agentrail import Ask, Context, Continue, HoldTool, SessionSpec, open_supervisor, tool
from agentrail.events import SecurityAudit
from agentrail.journals import MemoryJournal
from agentrail.plugins import BLOCKED_PATHS, Answered, AskAnswer, BeforeTool, Failed, FindFiles, SecurityGuard, TimedOut
from agentrail.ports.sandbox import MAX_FILE
from agentrail.sandboxes import Content, MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from tests.each_case import each_case
from tests.plugins.shell_lines.folders import index_of
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.journals import TestJournal
from tests.runtime.world import until

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)
WORKING = Context(working_dir="/work/app")
GUARD = SecurityGuard(confined_tools=("shell",))


def hook(command: str, answer: AskAnswer | None = None, guard: SecurityGuard = GUARD) -> BeforeTool:
    """Return the hook of a call of `shell`, with the guard's own question if *answer* is given."""
    plain = BeforeTool("shell", {"command": command}, "c1")
    if answer is None:
        return plain
    asked = guard.before_tool(plain, None, WORKING)
    assert isinstance(asked, Ask)
    return plain.but(asked=asked.request, answer=answer)


def asked(command: str, guard: SecurityGuard = GUARD) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of which the guard wants to know, on the disk and in git; empty if it wants nothing."""
    said = guard.before_tool(hook(command), None, WORKING)
    if isinstance(said, Continue):
        return (), ()
    assert isinstance(said, Ask), said
    assert isinstance(said.request, FindFiles)
    return said.request.folders, said.request.tracked


ASKED = [
    ("git diff", (), (".",)),
    ("git diff -- src/", (), ("src",)),
    ("git diff src/", (), ("src",)),
    ("git diff --cached", (".",), (".",)),
    ("cd src && git diff -- util", (), ("util", "src/util")),
    ("git diff -- ./src/../tests /work/app/src", (), ("tests", "src")),
    ("git grep API", (), (".",)),
    ("git grep -e API -- 'src/*.py'", (), ("src",)),
    ("git archive -o x.zip HEAD src", ("src",), ("src",)),
    ("git diff main -- src/app.py", ("src/app.py",), ()),
    ("grep -r API src; tar c .; cp -r src old", (), ()),
    ("rm -rf src", (), ()),
    ("git diff --stat", (), ()),
    ("git status", (), ()),
]


@each_case(ASKED)
def test_it_asks_for_the_folders_that_a_command_reads(
    command: str, folders: tuple[str, ...], tracked: tuple[str, ...]
) -> None:
    assert asked(command) == (folders, tracked)


HELD = (
    "git diff main -- src",
    "git log -p -- src",
    "git archive -o x.zip v1.0 src",
    "git diff --submodule=diff",
    "git --git-dir=x diff",
    "GIT_DIR=x git diff",
    "git grep --untracked API",
    "git checkout main && grep -r API src",
    "git -C x pull; cp -r src old",
    "git pull; git diff --cached",
    "git clone . y && grep -r KEY y",
    "git worktree add y; cat y/*",
    "git status -vv",
    "git status --verb src",
    "git commit --dry-run -av",
)


@each_case(HELD)
def test_it_holds_what_no_look_would_tell(command: str) -> None:
    assert isinstance(GUARD.before_tool(hook(command), None, WORKING), HoldTool)


def test_it_asks_for_the_names_that_may_be_in_any_folder() -> None:
    guard = SecurityGuard(
        default_blocked_paths=False, blocked_paths=("/a/b", "~/c", "d", "e/f", "k*"), confined_tools=("shell",)
    )
    said = guard.before_tool(hook("git diff -- src"), None, WORKING)
    assert isinstance(said, Ask)
    assert said.request == FindFiles(("d", "e", "k*"), (), ("src",))


ANSWERS: list[tuple[str, AskAnswer, bool]] = [
    ("git diff -- src", Answered(()), True),
    ("git diff -- src", Answered(("src/.env",)), False),
    ("git diff -- src", Answered(("src/a/b/.AWS",)), False),
    ("git diff -- src", Answered(("src/x.env",)), True),
    ("git diff -- src", Failed("it has too many files"), False),
    ("git diff -- src", TimedOut(10.0), False),
    ("git diff -- src", Answered(None), False),
    ("git diff -- src", Answered("src/.env"), False),
    ("git diff", Answered((".env",)), False),
    ("git diff --cached", Answered((".git",)), True),
    ("git grep API -- 's*v'", Answered(("sub/.env",)), False),
]


@pytest.mark.parametrize(("command", "answer", "passes"), ANSWERS, ids=map(str, range(len(ANSWERS))))
def test_it_judges_by_the_answer(command: str, answer: AskAnswer, *, passes: bool) -> None:
    said = GUARD.before_tool(hook(command, answer), None, WORKING)
    assert isinstance(said, Continue if passes else HoldTool)


def test_what_it_found_or_why_it_does_not_know_is_told_to_the_person() -> None:
    found = GUARD.before_tool(hook("git diff -- src", Answered(("src/.env",))), None, WORKING)
    assert isinstance(found, HoldTool)
    assert "`src/.env` is there" in found.hint
    (audit,) = found.emits
    assert isinstance(audit, SecurityAudit)
    late = GUARD.before_tool(hook("git diff -- src", TimedOut(10.0)), None, WORKING)
    assert isinstance(late, HoldTool)
    assert "it was not known within 10 seconds what is there" in late.hint


def test_a_path_that_is_allowed_is_not_found() -> None:
    guard = SecurityGuard(allowed_paths=("/work/app/src/.env",), confined_tools=("shell",))
    answer = Answered(("src/.env",))
    assert isinstance(guard.before_tool(hook("git diff -- src", answer, guard), None, WORKING), Continue)


def test_an_answer_to_another_question_does_not_count() -> None:
    other = hook("git diff -- src", Answered(())).but(args={"command": "git diff -- sub"})
    assert isinstance(GUARD.before_tool(other, None, WORKING), Ask)


def test_where_it_cannot_ask_it_holds() -> None:
    final = hook("git diff -- src").but(final=True)
    assert isinstance(GUARD.before_tool(final, None, WORKING), HoldTool)


def test_what_a_person_approved_is_not_asked_for() -> None:
    approved = hook("git diff -- src").but(approved=True)
    assert isinstance(GUARD.before_tool(approved, None, WORKING), Continue)


def test_without_the_rule_it_does_not_ask() -> None:
    guard = SecurityGuard(rules=GUARD.rules - {"reads-commits"}, confined_tools=("shell",))
    assert asked("git diff -- src; git grep x", guard) == ((), ())


def test_nothing_blocked_in_any_folder_means_nothing_to_ask_for_but_names_are_still_told() -> None:
    assert {path for path in BLOCKED_PATHS if "/" not in path} <= set(_names())


def _names() -> tuple[str, ...]:
    said = GUARD.before_tool(hook("git diff -- src"), None, WORKING)
    assert isinstance(said, Ask)
    assert isinstance(said.request, FindFiles)
    return said.request.names


class Repository(MemorySandbox):
    """A sandbox with a repository that tracks keys; commands in it see nothing of what is blocked."""

    hidden = BLOCKED_PATHS

    def __init__(self) -> None:
        super().__init__({".git/index": index_of(("src/app.py", "sub/.env"))})


class Endless(Repository):
    """A sandbox in which no file is ever read."""

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        await trio.sleep_forever()
        return await super().read(path, offset, limit)


def showing(sandbox: MemorySandbox) -> SessionSpec:
    """Return the spec of a session whose model wants to see what git shows of two folders."""

    @tool(requires=("shell",))
    async def shell(command: str) -> str:
        """Run a command."""
        await trio.lowlevel.checkpoint()
        return f"ran {command}"

    calls = [call("shell", {"command": f"git diff -- {folder}"}) for folder in ("src", "sub")]
    return SessionSpec(
        model=ScriptedModel([say(calls=calls), "done"], repeat_last=True),
        tools=[shell],
        plugins=[SecurityGuard()],
        sandbox=sandbox,
    )


@in_virtual_time
async def test_a_session_holds_what_git_shows_of_a_folder_with_keys_and_runs_what_shows_none() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(showing(Repository()), "s")
        reply = await session.ask("show")
        assert [held.args["command"] for held in reply.held] == ["git diff -- sub"]
        assert "`sub/.env` is there" in reply.held[0].hint


@in_virtual_time
async def test_a_look_that_a_restart_cut_short_is_taken_again() -> None:
    journal = TestJournal(inner=lambda: MemoryJournal(encode=True))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(showing(Endless()), "s")
        await session.prompt("show")
        await trio.sleep(1)
        assert [asking.request for asking in session.status().asking] == ["FindFiles"] * 2
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", showing(Repository()))
        await until(lambda: session.status().held)
        assert "`sub/.env` is there" in session.status().held[0].hint


@in_virtual_time
async def test_a_look_that_does_not_end_in_time_holds_the_call() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(showing(Endless()), "s")
        first, _ = (await session.ask("show")).held
        assert "it was not known within 10 seconds what is there" in first.hint


@in_virtual_time
async def test_a_tool_that_runs_its_commands_elsewhere_is_not_confined_by_the_sandbox() -> None:
    spec = showing(Repository())

    @tool
    async def shell(command: str) -> str:
        """Run a command on another machine."""
        await trio.lowlevel.checkpoint()
        return f"ran {command}"

    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec.but(tools=[shell]), "s")
        reply = await session.ask("show")
        assert all("no sandbox hides what is blocked" in held.hint for held in reply.held)
        assert len(reply.held) == 2
