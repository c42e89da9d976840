import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrail.cli.programs import MAX_OUTPUT, argv_of, output_of
from agentrail.cli.tools import MAX_BYTES, inside, remembering, terminal_tools
from agentrail.errors import ToolError
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools import Err, Ok, ok
from agentrail.values.content import text_of
from agentrail.values.json import freeze_object

TOOLS = {tool.spec.name: tool for tool in terminal_tools()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("Tea\ncoffee\n")
    (root / "docs" / "b.md").write_text("more tea\n")
    (root / ".git" / "config").write_text("tea\n")
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "secret.txt").write_text("tea secret\n")
    (root / "way-out").symlink_to(tmp_path / "root2")
    (root / "secret-link.txt").symlink_to(tmp_path / "root2" / "secret.txt")
    return root


async def call(tool: Tool | str, folder: Path | None = None, **args: object) -> str:
    """Return what the tool answers, an error behind a cross."""
    found = TOOLS[tool] if isinstance(tool, str) else tool
    result = await found.execute(freeze_object(args), ToolContext(working_dir=str(folder)))
    assert isinstance(result, Ok | Err)
    return ("" if isinstance(result, Ok) else "✗ ") + text_of(result.content)


# Paths


OUTSIDE = [
    "..",
    "../root2",
    "../root2/secret.txt",
    "/etc/passwd",
    "/",
    "docs/../../root2",
    "way-out",
    "way-out/secret.txt",
]


@pytest.mark.parametrize("path", [*OUTSIDE, "secret-link.txt", "~", "~/x", "a\0b"])
def test_a_path_outside_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(ToolError):
        inside(str(folder), path)


@pytest.mark.parametrize("path", [".", "", "a.txt", "docs", "docs/../a.txt", "new/file.txt"])
def test_a_path_inside_is_found(folder: Path, path: str) -> None:
    assert inside(str(folder), path) == folder / os.path.normpath(path)


def test_an_absolute_path_inside_is_found(folder: Path) -> None:
    assert inside(str(folder), str(folder / "a.txt")) == folder / "a.txt"


@pytest.mark.parametrize("path", [*OUTSIDE, "secret-link.txt"])
async def test_no_tool_leaves_its_folder(folder: Path, path: str) -> None:
    said = [
        await call("list_files", folder, path=path),
        await call("read_file", folder, path=path),
        await call("write_file", folder, path=path, content="mine"),
        await call("search", folder, pattern="secret", path=path),
        await call("run", folder, command=f"cat {path}"),
    ]
    assert set(said) == {f"✗ {path!r} is outside of the working directory; give a path inside of it"}
    assert (folder.parent / "root2" / "secret.txt").read_text() == "tea secret\n"


# Files


async def test_files_are_listed(folder: Path) -> None:
    assert await call("list_files", folder) == "a.txt\ndocs/b.md"
    assert await call("list_files", folder, path="docs") == "b.md"
    assert await call("list_files", folder, glob="*.md") == "docs/b.md"
    assert await call("list_files", folder, glob="*.py") == "nothing in . matches *.py"
    assert await call("list_files", folder, path="nowhere") == "✗ there is no folder 'nowhere'"


async def test_a_file_is_read(folder: Path) -> None:
    assert await call("read_file", folder, path="a.txt") == "Tea\ncoffee\n"
    assert await call("read_file", folder, path="no.txt") == (
        "✗ there is no file 'no.txt'; list the files to see those there are"
    )
    (folder / "bin").write_bytes(b"a\0b")
    assert await call("read_file", folder, path="bin") == "✗ 'bin' is no text"
    (folder / "big").write_text("x" * (MAX_BYTES + 5))
    assert await call("read_file", folder, path="big") == "x" * MAX_BYTES + "\n[cut: only the first 100000 bytes]"


async def test_a_file_is_written(folder: Path) -> None:
    assert await call("write_file", folder, path="new/c.txt", content="hé") == "wrote 2 characters to new/c.txt"
    assert (folder / "new" / "c.txt").read_text(encoding="utf-8") == "hé"
    assert await call("write_file", folder, path="docs", content="") == "✗ 'docs' is a folder"
    assert await call("write_file", folder, path="a.txt/b", content="") == "✗ File exists: a.txt"


async def test_files_are_searched(folder: Path) -> None:
    assert await call("search", folder, pattern="TEA") == "a.txt:1: Tea\ndocs/b.md:1: more tea"
    assert await call("search", folder, pattern="tea", path="docs/b.md") == "docs/b.md:1: more tea"
    assert await call("search", folder, pattern="milk") == "nothing holds 'milk'"
    (folder / "many.txt").write_text("milk\n" * 300)
    assert (await call("search", folder, pattern="milk")).splitlines()[200:] == ["[cut: only the first 200]"]


async def test_facts_are_remembered_by_each_conversation_for_itself() -> None:
    mine, other = remembering(), remembering()
    assert await call(mine, fact="tea") == "remembered (1 in all): tea"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(other, fact="sugar") == "remembered (1 in all): sugar"


async def test_counting_takes_a_second_for_each_number(autojump_clock: trio.testing.MockClock) -> None:
    told: list[tuple[float, str]] = []
    start = autojump_clock.current_time()
    ctx = ToolContext(report=lambda said: told.append((autojump_clock.current_time() - start, said)))
    assert await TOOLS["count"].execute(freeze_object({"to": 3}), ctx) == ok("counted to 3")
    assert told == [(0, "1 of 3"), (1, "2 of 3"), (2, "3 of 3")]


# Commands


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("pwd", ["pwd"]),
        ("ls -la", ["ls", "-la"]),
        ("ls docs", ["ls", "ROOT/docs"]),
        ("cat a.txt 'docs/b.md'", ["cat", "ROOT/a.txt", "ROOT/docs/b.md"]),
        ("head -3 a.txt", ["head", "-3", "ROOT/a.txt"]),
        ("echo -n a b", ["echo", "-n", "a", "b"]),
        ("echo $HOME; ls | wc > x", ["echo", "$HOME;", "ls", "|", "wc", ">", "x"]),
        ("sleep 0.5", ["sleep", "0.5"]),
    ],
)
def test_a_command_becomes_a_list_of_words(folder: Path, command: str, argv: list[str]) -> None:
    found = argv_of(command, str(folder), inside)
    assert list(found) == [word.replace("ROOT", str(folder)) for word in argv]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "the command is empty"),
        ("echo 'a", "cannot read the command: No closing quotation"),
        ("rm -rf .", "cannot run 'rm'"),
        ("/bin/ls", "cannot run '/bin/ls'"),
        ("ls -R", "ls may not have the option '-R'"),
        ("ls --color", "ls may not have the option '--color'"),
        ("tail -f a.txt", "tail may not have the option '-f'"),
        ("cat", "cat takes more arguments"),
        ("cat -", "cat may not have the option '-'"),
        ("pwd docs", "pwd takes no arguments"),
        ("sleep forever", "sleep takes a number of seconds"),
        ("cat /etc/passwd", "'/etc/passwd' is outside"),
        ("wc -l ../root2/secret.txt", "is outside"),
    ],
)
def test_any_other_command_is_refused(folder: Path, command: str, problem: str) -> None:
    with pytest.raises(ToolError) as refused:
        argv_of(command, str(folder), inside)
    assert problem in str(refused.value)


async def test_a_command_runs_in_the_folder(folder: Path) -> None:
    assert await call("run", folder, command="pwd") == str(folder)
    assert await call("run", folder, command="wc -l a.txt") == f"2 {folder}/a.txt"
    assert await call("run", folder, command="echo -n") == "(no output)"
    assert (await call("run", folder, command="cat no.txt")).startswith("✗ exit code 1: ")
    assert await call("run", folder, command="rm a.txt") == (
        "✗ cannot run 'rm', only cat, date, echo, head, ls, pwd, sleep, tail, uname, wc, whoami; there is no shell"
    )


async def test_a_command_sees_neither_our_input_nor_our_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "tea")
    said = await output_of(("sh", "-c", "cat; env"), str(folder))
    assert "PATH=" in said
    assert "A_SECRET" not in said


async def test_endless_output_is_cut_and_its_process_ended(folder: Path) -> None:
    with trio.fail_after(20):
        said = await output_of(("yes",), str(folder))
    assert said.endswith(f"[stopped: only the first {MAX_OUTPUT} bytes]")


async def test_a_program_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(ToolError, match="cannot run 'no-such-program'"):
        await output_of(("no-such-program",), str(folder))


@pytest.mark.parametrize(
    ("script", "ended_by"),
    [
        ("sleep 60 & echo $!; exec sleep 60", signal.SIGTERM),
        ("trap '' TERM; sleep 60 & echo $!; wait; wait", signal.SIGKILL),
    ],
    ids=["asked", "made"],
)
async def test_nothing_is_left_of_a_command_that_is_cancelled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, ended_by: signal.Signals
) -> None:
    opened: list[trio.Process] = []
    open_process = trio.lowlevel.open_process

    async def watched(command: Sequence[str], *, cwd: str, env: Mapping[str, str], **_: object) -> trio.Process:
        pipe = subprocess.PIPE
        opened.append(await open_process(command, stdout=pipe, cwd=cwd, env=env, start_new_session=True))
        return opened[0]

    monkeypatch.setattr(trio.lowlevel, "open_process", watched)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output_of, ("sh", "-c", script), str(folder))
        with trio.fail_after(20):
            while not opened or not _children(opened[0].pid):  # noqa: ASYNC110 - the system tells nobody
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert opened[0].returncode == -ended_by
    with trio.fail_after(20):
        while _is_there(opened[0].pid):  # noqa: ASYNC110 - the system tells nobody
            await trio.sleep(0.01)


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def _is_there(group: int) -> bool:
    """Tell whether a process of *group* is alive; one that nobody has buried yet is not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if its_group == str(group) and state != "Z":
            return True
    return False
