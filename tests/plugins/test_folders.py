"""`SecurityGuard` has the session look for blocked names in folders that a command reads, and judges by the answer."""

from pathlib import Path

import pytest
import trio

from agentrail import Ask, Context, Continue, HoldTool, SessionSpec, open_supervisor
from agentrail.events import SecurityAudit
from agentrail.journals import MemoryJournal
from agentrail.models import JsonObject
from agentrail.plugins import BLOCKED_PATHS, Answered, AskAnswer, BeforeTool, Failed, FindFiles, SecurityGuard, TimedOut
from agentrail.sandboxes import Listing, MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.each_case import each_case
from tests.kit import Element
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import open_world, until

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)
WORKING = Context(working_dir="/work/app")
GUARD = SecurityGuard()


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
    ("grep -r API src", ("src",), ()),
    ("grep -r API src tests", ("src", "tests"), ()),
    ("grep -r API ./src/../tests /work/app/src", ("tests", "src"), ()),
    ("cd src && grep -r API util", ("util", "src/util"), ()),
    ("grep -r API docs/*.md s*", ("docs", "."), ()),
    ("cp -r src old", ("src",), ()),
    ("rsync -a src/ old", ("src",), ()),
    ("diff -r src old", ("src", "old"), ()),
    ("rg API", (".",), ()),
    ("rg API src", ("src",), ()),
    ("ag API src", ("src",), ()),
    ("git diff", (), (".",)),
    ("git diff -- src/", (), ("src",)),
    ("git diff src/", (), ("src",)),
    ("git diff --cached", (".",), (".",)),
    ("git grep API", (), (".",)),
    ("git grep -e API -- 'src/*.py'", (), ("src",)),
    ("git archive -o x.zip HEAD src", ("src",), ("src",)),
    ("git diff main -- src/app.py", ("src/app.py",), ()),
    ("grep API src/app.py", (), ()),
    ("grep -r API --include='*.py' src", (), ()),
    ("cp src/app.py old.py", (), ()),
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
    "rg API ~/other",
    "find . -name src -exec grep -r API {} +",
    "echo src | xargs grep -r API",
    "git checkout main && grep -r API src",
    "git -C x pull; cp -r src old",
    "tar xf a.tar && rg API a",
    "unzip a.zip; git diff --cached",
)


@each_case(HELD)
def test_it_holds_what_no_look_would_tell(command: str) -> None:
    assert isinstance(GUARD.before_tool(hook(command), None, WORKING), HoldTool)


def test_it_asks_for_the_names_that_may_be_in_any_folder() -> None:
    guard = SecurityGuard(default_blocked_paths=False, blocked_paths=("/a/b", "~/c", "d", "e/f", "k*"))
    said = guard.before_tool(hook("grep -r API src"), None, WORKING)
    assert isinstance(said, Ask)
    assert said.request == FindFiles(("d", "e", "k*"), ("src",))


def test_it_asks_without_what_is_ignored_only_for_searches_that_leave_it_out() -> None:
    told = {}
    for command in ("rg x src", "ag x src", "rg -u x src", "rg --no-ignore-vcs x src", "rg -. x src", "grep -r x src"):
        said = GUARD.before_tool(hook(command), None, WORKING)
        assert isinstance(said, Ask)
        assert isinstance(said.request, FindFiles)
        told[command] = said.request.ignored
    assert [command for command, ignored in told.items() if not ignored] == ["rg x src", "ag x src"]


ANSWERS: list[tuple[str, AskAnswer, bool]] = [
    ("grep -r API src", Answered(()), True),
    ("grep -r API src", Answered(("src/.env",)), False),
    ("grep -r API src", Answered(("src/a/b/.AWS",)), False),
    ("grep -r API src", Answered(("src/.git",)), False),
    ("grep -r API src", Answered(("src/x.env",)), True),
    ("grep -r API src", Failed("it has too many files"), False),
    ("grep -r API src", TimedOut(10.0), False),
    ("grep -r API src", Answered(None), False),
    ("grep -r API src", Answered("src/.env"), False),
    ("grep -r API docs/*.md", Answered(("docs/.env",)), True),
    ("grep -r API doc?", Answered(("docs/.env",)), False),
    ("grep -r API doc?", Answered(("sub/.env",)), True),
    ("rg API", Answered((".env", ".git")), True),
    ("rg API", Answered(("id_rsa",)), False),
    ("rg API .github", Answered((".github/id_rsa",)), False),
    ("rg API .github", Answered((".github/.env",)), True),
    ("git diff", Answered((".env",)), False),
    ("git diff --cached", Answered((".git",)), True),
    ("git grep API -- 's*v'", Answered(("sub/.env",)), False),
]


@pytest.mark.parametrize(("command", "answer", "passes"), ANSWERS, ids=map(str, range(len(ANSWERS))))
def test_it_judges_by_the_answer(command: str, answer: AskAnswer, *, passes: bool) -> None:
    said = GUARD.before_tool(hook(command, answer), None, WORKING)
    assert isinstance(said, Continue if passes else HoldTool)


def test_what_it_found_or_why_it_does_not_know_is_told_to_the_person() -> None:
    found = GUARD.before_tool(hook("grep -r API src", Answered(("src/.env",))), None, WORKING)
    assert isinstance(found, HoldTool)
    assert "`src/.env` is there" in found.hint
    (audit,) = found.emits
    assert isinstance(audit, SecurityAudit)
    late = GUARD.before_tool(hook("grep -r API src", TimedOut(10.0)), None, WORKING)
    assert isinstance(late, HoldTool)
    assert "it was not known within 10 seconds what is there" in late.hint


def test_a_path_that_is_allowed_is_not_found() -> None:
    guard = SecurityGuard(allowed_paths=("/work/app/src/.env",))
    answer = Answered(("src/.env",))
    assert isinstance(guard.before_tool(hook("grep -r x src", answer, guard), None, WORKING), Continue)


def test_an_answer_to_another_question_does_not_count() -> None:
    other = hook("grep -r API src", Answered(())).but(args={"command": "grep -r API sub"})
    assert isinstance(GUARD.before_tool(other, None, WORKING), Ask)


def test_where_it_cannot_ask_it_holds() -> None:
    final = hook("grep -r API src").but(final=True)
    assert isinstance(GUARD.before_tool(final, None, WORKING), HoldTool)


def test_what_a_person_approved_is_not_asked_for() -> None:
    approved = hook("grep -r API src").but(approved=True)
    assert isinstance(GUARD.before_tool(approved, None, WORKING), Continue)


def test_without_the_rule_it_does_not_ask() -> None:
    guard = SecurityGuard(rules=GUARD.rules - {"reads-tree", "reads-commits"})
    assert asked("grep -r API src; git diff", guard) == ((), ())


def test_nothing_blocked_in_any_folder_means_nothing_to_ask_for_but_names_are_still_told() -> None:
    assert {path for path in BLOCKED_PATHS if "/" not in path} <= set(_names())


def _names() -> tuple[str, ...]:
    said = GUARD.before_tool(hook("grep -r API src"), None, WORKING)
    assert isinstance(said, Ask)
    assert isinstance(said.request, FindFiles)
    return said.request.names


def test_a_session_holds_a_search_of_a_folder_with_keys_and_runs_one_without(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "src/app.py").write_text("print()")
    (tmp_path / "sub/.env").write_text("KEY=1")
    trio.run(_search, tmp_path)  # in real time: folders are read in threads, which virtual time overtakes


async def _search(folder: Path) -> None:
    async def found(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok("found")

    shell = fake("shell", found)
    script: list[Element] = [
        say(calls=[call("shell", {"command": "grep -r API src"}), call("shell", {"command": "grep -r API sub"})]),
        "done",
    ]
    async with open_world() as world:
        session = await world.spawn(script, tools=[shell], plugins=[GUARD], working_dir=str(folder))
        reply = await session.ask("search")
        assert [held.args["command"] for held in reply.held] == ["grep -r API sub"]
        assert len(shell.calls) == 1
        assert "`sub/.env` is there" in reply.held[0].hint


class Endless(MemorySandbox):
    """A sandbox in which no look through a folder ends."""

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        await trio.sleep_forever()
        return await super().glob(pattern, path, ignored=ignored, limit=limit)


FILES = {"sub/.env": b"KEY=1"}


def searching(sandbox: MemorySandbox) -> SessionSpec:
    async def found(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok("found")

    said = say(calls=[call("shell", {"command": "grep -r API sub"})])
    return SessionSpec(
        model=ScriptedModel([said, "done"], repeat_last=True),
        tools=[fake("shell", found)],
        plugins=[GUARD],
        sandbox=sandbox,
    )


@in_virtual_time
async def test_a_look_that_a_restart_cut_short_is_taken_again() -> None:
    journal = TestJournal(inner=lambda: MemoryJournal(encode=True))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(searching(Endless(FILES)), "s")
        await session.prompt("search")
        await trio.sleep(1)
        assert [asking.request for asking in session.status().asking] == ["FindFiles"]
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", searching(MemorySandbox(FILES)))
        await until(lambda: session.status().held)
        assert "`sub/.env` is there" in session.status().held[0].hint


@in_virtual_time
async def test_a_look_that_does_not_end_in_time_holds_the_call() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(searching(Endless(FILES)), "s")
        (held,) = (await session.ask("search")).held
        assert "it was not known within 10 seconds what is there" in held.hint
