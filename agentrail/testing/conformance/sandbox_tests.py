"""Tests of what every sandbox must do. Inherit the class, and give it a `sandbox` fixture that returns an empty one.

    class TestMine(SandboxConformance):
        @pytest.fixture
        def sandbox(self) -> Sandbox:
            return MySandbox()

The tests are async functions for pytest-trio. For a sandbox that runs commands, inherit `CommandConformance` too.
"""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import cast

import trio

from agentrail.errors import BadEdit, BadPattern, CommandRefused, FileFailed, FileMissing, PathRefused
from agentrail.ports.sandbox import Command, Entry, Heard, Kind, Sandbox, Search
from agentrail.testing.conformance.expected_errors import raised

REFUSED = (
    "",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "/etc/passwd",
    "/",
    "~",
    "~/x",
    "a\0b",
    "a\nb",
    "x" * 256,
    "\ud800",
    "\uff0e\uff0e/x",
)
"""Paths that every sandbox must refuse."""


def paths(entries: tuple[Entry, ...]) -> list[str]:
    """Return the paths of *entries*, in order."""
    return [entry.path for entry in entries]


def _command_lines() -> list[bytes]:
    """Return the command lines of all processes of this machine; empty on systems other than Linux."""
    lines: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(path.read_bytes())
    return lines


class SandboxConformance:
    """Tests of files: reading, writing, editing, listing and searching them, and of paths that must be refused."""

    async def test_what_is_written_is_read(self, sandbox: Sandbox) -> None:
        """`write` creates the file, with its parent folders, and `read` returns its content."""
        result = await sandbox.write("a/b/c.txt", b"one\ntwo\n")
        content = await sandbox.read("a/b/c.txt")
        assert (result.size, result.created) == (8, True)
        assert (content.data, content.size) == (b"one\ntwo\n", 8)
        assert await sandbox.exists("a/b")
        assert not (await sandbox.write("a/b/c.txt", b"")).created
        assert (await sandbox.read("./a//b/./c.txt")).data == b""

    async def test_any_bytes_and_any_name_can_be_written(self, sandbox: Sandbox) -> None:
        """Any bytes can be written, under almost any name."""
        data = bytes(range(256)) * 5
        for name in ("ü 漢字 🙂.txt", "-rf", "$(x)", "a b'c\"d;e&f|g", "...", "%2e%2e", "x" * 255):
            await sandbox.write(name, data)
            assert (await sandbox.read(name)).data == data

    async def test_only_bytes_can_be_written(self, sandbox: Sandbox) -> None:
        """`write` refuses `str` before anything is written, with advice."""
        text = cast("bytes", "text")
        assert "text.encode()" in str(await raised(FileFailed, sandbox.write("a", text)))
        assert not await sandbox.exists("a")

    async def test_a_piece_of_a_file_can_be_read(self, sandbox: Sandbox) -> None:
        """`read` takes offset and limit in bytes, and returns the size of the whole file."""
        await sandbox.write("f", b"0123456789")
        for offset, limit, piece in ((3, 4, b"3456"), (8, 9, b"89"), (10, 1, b""), (99, 1, b""), (0, 0, b"")):
            content = await sandbox.read("f", offset, limit)
            assert (content.data, content.size) == (piece, 10)

    async def test_what_is_not_there_is_missing(self, sandbox: Sandbox) -> None:
        """Reading or listing a missing path raises `FileMissing`, and creates nothing."""
        await raised(FileMissing, sandbox.read("no/such"))
        await raised(FileMissing, sandbox.edit("nothing", b"a", b"b"))
        await raised(FileMissing, sandbox.list("no"))
        await raised(FileMissing, sandbox.glob("*", "no"))
        await raised(FileMissing, sandbox.grep(Search("x", "no")))
        assert not await sandbox.exists("no/such")
        assert (await sandbox.list()).entries == ()

    async def test_a_folder_is_no_file_and_a_file_no_folder(self, sandbox: Sandbox) -> None:
        """A folder cannot be read as a file, nor a file listed as a folder."""
        await sandbox.write("folder/file", b"x")
        await raised(FileFailed, sandbox.read("folder"))
        await raised(FileFailed, sandbox.write("folder", b""))
        await raised(FileFailed, sandbox.write("folder/file/below", b""))
        await raised(FileFailed, sandbox.list("folder/file"))
        assert (await sandbox.read("folder/file")).data == b"x"

    async def test_an_edit_replaces_what_occurs_once(self, sandbox: Sandbox) -> None:
        """`edit` refuses a text that occurs twice or never, says how often it does, and changes nothing."""
        await sandbox.write("f", b"one two two")
        assert (await sandbox.edit("f", b"one", b"three")).size == len(b"three two two")
        for old, times in ((b"two", 2), (b"nine", 0), (b"", 0)):
            error = await raised(BadEdit, sandbox.edit("f", old, b"x"))
            assert isinstance(error, BadEdit)
            assert error.times == times
        assert (await sandbox.read("f")).data == b"three two two"
        assert (await sandbox.edit("f", b"two", b"2", every=True)).replaced == 2
        assert (await sandbox.read("f")).data == b"three 2 2"

    async def test_edits_at_the_same_time_are_all_kept(self, sandbox: Sandbox) -> None:
        """Concurrent edits of one file are all in its final content."""
        names = [f"<{number}>" for number in range(8)]
        await sandbox.write("f", "".join(names).encode())
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the edits end with the test
            for name in names:
                nursery.start_soon(sandbox.edit, "f", name.encode(), b".")
        assert (await sandbox.read("f")).data == b"." * len(names)

    async def test_a_folder_is_listed_in_order(self, sandbox: Sandbox) -> None:
        """`list` returns entries in order, each with its path from the root, its kind and its size."""
        await sandbox.write("d/b", b"12")
        await sandbox.write("d/a/x", b"")
        await sandbox.write("c", b"1")
        listing = await sandbox.list("d")
        assert listing.entries == (Entry("d/a", Kind.FOLDER), Entry("d/b", Kind.FILE, 2))
        assert not listing.cut
        assert paths((await sandbox.list()).entries) == ["c", "d"]
        short = await sandbox.list(".", 1)
        assert (paths(short.entries), short.cut) == (["c"], True)

    async def test_a_glob_finds_files(self, sandbox: Sandbox) -> None:
        """`glob` compares a pattern without a slash with names alone; `**` stands for any number of folders."""
        for name in ("a.py", "d/b.py", "d/e/c.py", "d/e/c.txt", "[x].py"):
            await sandbox.write(name, b"")
        for pattern, expected in (
            ("*.py", ["[x].py", "a.py", "d/b.py", "d/e/c.py"]),
            ("d/*.py", ["d/b.py"]),
            ("d/**/*.py", ["d/b.py", "d/e/c.py"]),
            ("**/e/*", ["d/e/c.py", "d/e/c.txt"]),
            ("*.{py,txt}", ["[x].py", "a.py", "d/b.py", "d/e/c.py", "d/e/c.txt"]),
            ("[[]x].py", ["[x].py"]),
            ("nothing", []),
        ):
            assert paths((await sandbox.glob(pattern)).entries) == expected, pattern
        assert paths((await sandbox.glob("*.py", "d/e")).entries) == ["d/e/c.py"]
        assert (await sandbox.glob("*", limit=2)).cut

    async def test_a_search_finds_lines(self, sandbox: Sandbox) -> None:
        """`grep` returns matching lines with their numbers and the lines around them."""
        await sandbox.write("a/f.txt", b"one\r\nTwo\nthree\nfour")
        await sandbox.write("b.txt", b"three\n")
        await sandbox.write("c.bin", b"three\0")
        result = await sandbox.grep(Search("t[hw]", ignore_case=True, before=1, after=1))
        assert [(match.path, match.number, match.line) for match in result.matches] == [
            ("a/f.txt", 2, "Two"),
            ("a/f.txt", 3, "three"),
            ("b.txt", 1, "three"),
        ]
        assert (result.matches[0].before, result.matches[0].after) == (("one",), ("three",))
        assert (result.searched, result.skipped, result.cut) == (2, 1, False)
        assert len((await sandbox.grep(Search("t[h", fixed=True))).matches) == 0
        assert len((await sandbox.grep(Search("three", glob="*.txt", path="a"))).matches) == 1
        assert len((await sandbox.grep(Search("three", path="b.txt"))).matches) == 1
        assert (await sandbox.grep(Search("three", limit=1))).cut
        await raised(BadPattern, sandbox.grep(Search("(")))

    async def test_what_git_ignores_is_not_searched_unless_asked(self, sandbox: Sandbox) -> None:
        """Files that `.gitignore` files exclude are not found unless asked for; the last rule that matches decides."""
        await sandbox.write(".gitignore", b"*.log\n!keep.log\n/build/\n# comment\n")
        await sandbox.write("d/.gitignore", b"local\n")
        for name in ("a.log", "keep.log", "build/x", "d/build/x", "d/local", "local", "d/a.log"):
            await sandbox.write(name, b"word")
        paths_ = [match.path for match in (await sandbox.grep(Search("word"))).matches]
        assert paths_ == ["d/build/x", "keep.log", "local"]
        assert paths((await sandbox.glob("*.log", "d")).entries) == []
        assert paths((await sandbox.list(".", ignored=False)).entries) == [".gitignore", "d", "keep.log", "local"]
        assert paths((await sandbox.list("d", ignored=False)).entries) == ["d/.gitignore", "d/build"]
        assert {"a.log", "build"} <= set(paths((await sandbox.list()).entries))
        everything = paths((await sandbox.glob("**", ignored=True)).entries)
        assert {"a.log", "build/x", "d/local", ".gitignore"} <= set(everything)

    async def test_no_sandbox_takes_a_path_that_leads_elsewhere(self, sandbox: Sandbox) -> None:
        """Each method refuses each path in `REFUSED`."""
        await sandbox.write("a/x", b"")
        for path in REFUSED:
            await raised(PathRefused, sandbox.read(path))
            await raised(PathRefused, sandbox.write(path, b""))
            await raised(PathRefused, sandbox.edit(path, b"a", b"b"))
            await raised(PathRefused, sandbox.exists(path))
            await raised(PathRefused, sandbox.list(path))
            await raised(PathRefused, sandbox.glob("*", path))
            await raised(PathRefused, sandbox.grep(Search("x", path)))

    async def test_what_others_obey_cannot_be_written(self, sandbox: Sandbox) -> None:
        """Files that other programs obey, such as hooks of git, cannot be written, whether they exist or not."""
        for path in (".git/hooks/pre-commit", "d/.git/config", ".GIT/config", ".agentrail/settings", ".envrc"):
            await raised(PathRefused, sandbox.write(path, b""))
            await raised(PathRefused, sandbox.edit(path, b"a", b"b"))
        assert (await sandbox.list()).entries == ()


class CommandConformance:
    """Tests of commands: their results, output, time limits and background processes."""

    async def test_a_command_answers(self, sandbox: Sandbox) -> None:
        """`execute` returns the exit code, the output and the errors of a command."""
        execution = await sandbox.execute(Command("echo out; echo err >&2; exit 3"))
        assert (execution.exit_code, execution.stdout.text, execution.stderr.text) == (3, "out\n", "err\n")
        assert (execution.timed_out, execution.killed, execution.clean) == (False, False, True)
        both = await sandbox.execute(Command("echo out; echo err >&2", merge=True))
        assert (both.exit_code, both.stdout.text, both.stderr.text) == (0, "out\nerr\n", "")

    async def test_arguments_are_not_read_by_a_shell(self, sandbox: Sandbox) -> None:
        """Arguments given as a tuple reach the program unchanged, without a shell."""
        words = ("a b", "$HOME", "`id`", "; exit 1", "*", "-n", "", "'\"", "ü")
        execution = await sandbox.execute(Command(("printf", "%s|", *words)))
        assert execution.stdout.text == "".join(f"{word}|" for word in words)

    async def test_a_command_sees_the_files_and_runs_where_it_is_told(self, sandbox: Sandbox) -> None:
        """A command sees the sandbox's files, and starts in the root or in the given folder."""
        await sandbox.write("d/f", b"text")
        assert (await sandbox.execute(Command("cat d/f"))).stdout.text == "text"
        assert (await sandbox.execute(Command("cat f; echo new > g", folder="d"))).stdout.text == "text"
        assert (await sandbox.read("d/g")).data == b"new\n"
        await raised(PathRefused, sandbox.execute(Command("true", folder="..")))
        await raised(FileMissing, sandbox.execute(Command("true", folder="no")))

    async def test_a_command_gets_only_the_environment_it_is_given(self, sandbox: Sandbox) -> None:
        """A command gets only the given variables; variables that make programs load code are refused."""
        execution = await sandbox.execute(Command("echo $MINE; env", env=(("MINE", "1"),)))
        names = {line.partition("=")[0] for line in execution.stdout.text.splitlines()[1:]}
        assert execution.stdout.text.startswith("1\n")
        usual = {"HOME", "LANG", "LC_ALL", "LOGNAME", "MINE", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "TZ"}
        assert names <= {*usual, "USER", "_"}
        for name in ("LD_PRELOAD", "BASH_ENV", "PATH", "a b", ""):
            await raised(CommandRefused, sandbox.execute(Command("true", env=((name, "x"),))))

    async def test_no_command_line_shows_the_value_of_a_variable(self, sandbox: Sandbox) -> None:
        """A variable of any name and value reaches the command, and no process has the value on its command line."""
        value = f"{secrets.token_hex(8)}\n'\" $HOME `id`"
        names = ("name", "names", "kind", "merge", "folder", "HOME", "DOCKER_HOST", "UID")
        words = " ".join(f'"${name}"' for name in names[:-1])  # some shells have a UID of their own
        env = tuple([(name, value) for name in names])
        is_written = trio.Event()

        def listen(_: object) -> None:
            if process.heard().data.count(b"|") == len(names[:-1]):
                is_written.set()

        process = sandbox.prepare(Command(f"printf '%s|' {words}; sleep 100", env=env), listen)
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the process ends with the test
            nursery.start_soon(process.run)
            await is_written.wait()
            lines = await trio.to_thread.run_sync(_command_lines)
            process.kill()
        assert not [line for line in lines if value.partition("\n")[0].encode() in line]
        assert process.heard().data.decode() == f"{value}|" * len(names[:-1])

    async def test_an_empty_command_is_refused(self, sandbox: Sandbox) -> None:
        """An empty command is refused, and so is one that no system accepts."""
        for run in ("", " ", (), ("",), "a\0b"):
            await raised(CommandRefused, sandbox.execute(Command(run)))

    async def test_a_program_that_is_not_there_says_so(self, sandbox: Sandbox) -> None:
        """A missing program gives exit code 127, as in a shell."""
        for run in ("no-such-program", ("no-such-program",)):
            assert (await sandbox.execute(Command(run))).exit_code == 127

    async def test_a_command_that_takes_too_long_is_ended(self, sandbox: Sandbox) -> None:
        """A command is ended at its timeout, and its output until then is kept."""
        execution = await sandbox.execute(Command("echo begun; sleep 100", timeout=0.3))
        assert (execution.timed_out, execution.stdout.text) == (True, "begun\n")
        assert execution.exit_code != 0

    async def test_a_process_in_the_background_is_heard_and_killed(self, sandbox: Sandbox) -> None:
        """The output of a process in the background can be read while it runs, and `kill` ends it."""
        begun = trio.Event()
        process = sandbox.prepare(Command("printf onetwo; sleep 100"), lambda _: begun.set())
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the process ends with the test
            nursery.start_soon(process.run)
            with trio.fail_after(10):
                await begun.wait()
            assert process.heard(3) == Heard(b"two", 6)
            assert process.execution is None
            process.kill()
        assert process.execution is not None
        assert process.execution.killed
        assert process.heard(6).data == b""

    async def test_of_a_long_output_both_ends_are_kept(self, sandbox: Sandbox) -> None:
        """Of a long output, beginning and end are kept, with the number of dropped bytes."""
        execution = await sandbox.execute(Command("echo begin; head -c 3000000 /dev/zero; echo end", keep=1000))
        assert execution.stdout.total == 3_000_010
        assert execution.stdout.head.startswith(b"begin\n")
        assert execution.stdout.tail.endswith(b"end\n")
        assert len(execution.stdout.head) + len(execution.stdout.tail) == 1000
        assert execution.stdout.lost == 2_999_010

    async def test_what_holds_the_pipe_in_the_background_does_not_delay_the_answer(self, sandbox: Sandbox) -> None:
        """A background process that holds the output pipe is ended with the command, and does not delay its result."""
        with trio.fail_after(10):
            execution = await sandbox.execute(Command("sleep 100 & echo done"))
        assert (execution.exit_code, execution.stdout.text) == (0, "done\n")
