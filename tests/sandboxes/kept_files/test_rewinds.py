"""What an agent changed comes back byte for byte; what a person changed stays; what is left out is never touched."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from agentrail.adapters.sandboxes.kept_files.folder_snapshots import forget_owners
from agentrail.adapters.sandboxes.kept_files.taken_log import KEEP_DAYS
from agentrail.adapters.sandboxes.kept_files.tree_scan import FileState, _content
from agentrail.errors import FilesEdited, OutsideError, UsageError
from agentrail.sandboxes import FileSpan, LeftOutFile, LocalSandbox, RewoundFile
from tests.coded import coded
from tests.sandboxes.kept_files.conftest import Agent, contents_in, cut_line, git, names_in, texts_in

pytestmark = pytest.mark.long


async def test_all_that_the_agent_changed_comes_back_byte_for_byte(folder: Path, agent: Agent) -> None:
    (folder / "crlf.txt").write_bytes(b"x\r\n\xff")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o750)
    (folder / "link").symlink_to("crlf.txt")
    (folder / "gone").mkdir()
    (folder / "gone" / "a.txt").write_text("a")
    (folder / "now-a-folder").write_text("file")
    async with agent:
        (folder / "crlf.txt").write_bytes(b"y\n")
        (folder / "tool").chmod(0o640)
        (folder / "link").unlink()
        (folder / "link").symlink_to("/etc/passwd")
        shutil.rmtree(folder / "gone")
        (folder / "now-a-folder").unlink()
        (folder / "now-a-folder").mkdir()
        (folder / "now-a-folder" / "b.txt").write_text("b")
        (folder / "new" / "deep").mkdir(parents=True)
        (folder / "new" / "deep" / "c.txt").write_text("c")
    restored = await agent.snapshots.restore(agent.spans, "s")
    assert (folder / "crlf.txt").read_bytes() == b"x\r\n\xff"
    assert stat.S_IMODE((folder / "tool").stat().st_mode) == 0o750
    assert (folder / "link").readlink() == Path("crlf.txt")
    assert (folder / "gone" / "a.txt").read_text() == "a"
    assert (folder / "now-a-folder").read_text() == "file"
    assert not (folder / "new").exists()
    assert restored.files == (
        RewoundFile("crlf.txt", "restored"),
        RewoundFile("gone/a.txt", "recreated"),
        RewoundFile("link", "restored"),
        RewoundFile("new/deep/c.txt", "removed"),
        RewoundFile("now-a-folder", "recreated"),
        RewoundFile("now-a-folder/b.txt", "removed"),
        RewoundFile("tool", "restored"),
    )
    await agent.snapshots.restore([restored.span], "s")  # and it can be taken back
    assert (folder / "now-a-folder" / "b.txt").read_text() == "b"
    assert not (folder / "gone").exists()


async def test_the_text_of_a_person_stays_wherever_it_stands_in_time(folder: Path, agent: Agent) -> None:
    for name in ("before", "between", "after", "untouched", "alone"):
        (folder / name).write_text("old")
    (folder / "before").write_text("mine")
    async with agent:
        for name in ("before", "between", "after"):
            (folder / name).write_text("agent")
    (folder / "between").write_text("mine")
    (folder / "alone").write_text("mine")
    async with agent:
        (folder / "between").write_text("agent again")
    (folder / "after").write_text("mine")
    (folder / "own.txt").write_text("mine")
    preview = await agent.snapshots.preview(agent.spans, "s")
    assert preview.files == (RewoundFile("before", "restored"),)
    assert preview.edited == ("after", "between")
    with pytest.raises(FilesEdited, match=r"`after`, `between`; nothing was changed") as refused:
        await agent.snapshots.restore(agent.spans, "s")
    assert refused.value.paths == ("after", "between")
    assert (folder / "before").read_text() == "agent"
    await agent.snapshots.restore(agent.spans, "s", ["before"])
    assert texts_in(folder) == {
        "before": "mine",
        "between": "agent again",
        "after": "mine",
        "untouched": "old",
        "alone": "mine",
        "own.txt": "mine",
    }
    forced = await agent.snapshots.restore(agent.spans, "s", over_edits=True)
    assert {(folder / name).read_text() for name in ("between", "after")} == {"old"}
    await agent.snapshots.restore([forced.span], "s")
    assert (folder / "after").read_text() == "mine"  # even this is not lost


@pytest.mark.parametrize(
    "path",
    ["nope", "", ".", "in", "in/", "./a.txt", "../work/a.txt", "*.txt", ".env", "x.log", "line\\nbreak", "\ud800"],
)
async def test_a_path_that_no_call_changed_is_refused_before_anything_changes(
    folder: Path, agent: Agent, path: str
) -> None:
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "in").mkdir()
    async with agent:
        for name in ("a.txt", "in/b.txt", ".env", "x.log", "line\nbreak"):
            (folder / name).write_text("agent")
    for wanted in (path, str(folder / path)):
        with pytest.raises(UsageError, check=coded("no-changed-file")) as refused:
            await agent.snapshots.restore(agent.spans, "s", ["a.txt", wanted], over_edits=True)
        assert repr(wanted) in str(refused.value)
    assert (folder / "a.txt").read_text() == "agent"
    await agent.snapshots.restore(agent.spans, "s", ["line\nbreak"])
    assert not (folder / "line\nbreak").exists()
    restored = await agent.snapshots.restore(agent.spans, "s", ["line\nbreak", "a.txt"])  # one is as it should be
    assert restored.files == (RewoundFile("a.txt", "removed"),)


async def test_what_is_left_out_is_named_and_never_touched(
    folder: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.sandboxes.kept_files.tree_scan.MAX_BYTES", 1000)
    (folder / ".gitignore").write_text("*.log\n")
    for name in ("x.log", ".env", "large"):
        (folder / name).write_text("old")
    (folder / "nested" / ".git").mkdir(parents=True)
    (folder / "nested" / "in.txt").write_text("old")
    os.mkfifo(folder / "pipe")
    (folder / "two-names").write_text("old")
    (folder / "other-name").hardlink_to(folder / "two-names")
    async with agent:
        for name in ("x.log", ".env", "nested/in.txt", "two-names"):
            (folder / name).write_text("agent")
        (folder / "large").write_text("agent" * 1000)
        (folder / ".gitignore").write_text("large\n")  # `x.log` looks as if it were new
    taken = await agent.snapshots.take("s")
    assert taken.left_out == (
        LeftOutFile("nested", "a repository of its own"),
        LeftOutFile("other-name", "a file with several names"),
        LeftOutFile("pipe", "neither a file nor a folder"),
        LeftOutFile("two-names", "a file with several names"),
    )
    restored = await agent.snapshots.restore(agent.spans, "s")
    assert restored.files == (RewoundFile(".gitignore", "restored"),)
    assert restored.left_out == (
        LeftOutFile("large", "a snapshot of the change does not have it: ignored"),
        LeftOutFile("x.log", "a snapshot of the change does not have it: ignored"),
    )
    assert {path: (folder / path).read_text()[:5] for path in ("x.log", ".env", "nested/in.txt", "large")} == {
        "x.log": "agent",
        ".env": "agent",
        "nested/in.txt": "agent",
        "large": "agent",
    }


async def test_nothing_of_the_folder_runs_and_git_reads_the_store(
    folder: Path, agent: Agent, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q", folder=folder)
    for setting in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
        git("config", setting, "touch RAN; cat", folder=folder)
    (folder / ".gitattributes").write_text("* filter=evil text=auto ident\n")
    (folder / "a.txt").write_bytes(b"one $Id$\r\n")
    monkeypatch.setenv("GIT_DIR", str(folder / "elsewhere"))
    monkeypatch.setenv("PATH", "/nowhere")  # without git on the machine, too
    async with agent:
        (folder / "a.txt").write_text("two")
        (folder / "line\nbreak").write_text("b")
        os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    await agent.snapshots.restore(agent.spans, "s")
    assert (folder / "a.txt").read_bytes() == b"one $Id$\r\n"
    assert names_in(folder) == [".git", ".gitattributes", "a.txt"]
    monkeypatch.undo()
    store = stores / names_in(stores)[0]
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    git("fsck", "--strict", "--no-dangling", folder=store)
    assert git("show", f"{agent.spans[0].before}:files/a.txt", folder=store) == b"one $Id$\r\n"


async def test_a_damaged_store_changes_nothing(folder: Path, agent: Agent, stores: Path) -> None:
    (folder / "a.txt").write_text("old")
    async with agent:
        (folder / "a.txt").write_text("new")
        (folder / "b.txt").write_text("new")
    for path in contents_in(stores):
        path.write_bytes(b"damaged")
    with pytest.raises(OutsideError, check=coded("snapshot-damaged")):
        await agent.snapshots.preview([FileSpan(agent.spans[0].before, agent.spans[0].after)], "s")
    assert (folder / "a.txt").read_text() == "new"


async def test_a_link_out_of_the_folder_is_never_followed(folder: Path, agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("outside")
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("old")
    async with agent:
        (folder / "in" / "a.txt").write_text("agent")
    shutil.rmtree(folder / "in")
    (folder / "in").symlink_to(tmp_path / "outside")
    restored = await agent.snapshots.restore(agent.spans, "s", over_edits=True)
    assert restored.files == ()
    assert [file.path for file in restored.left_out] == ["in/a.txt"]
    assert (tmp_path / "outside" / "a.txt").read_text() == "outside"


@pytest.mark.parametrize("point", ["FILE_STAGED", "FILE_BACK"])
async def test_a_folder_that_becomes_a_link_while_files_come_back_is_left(
    folder: Path, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (folder / "in" / "deep").mkdir(parents=True)
    for parent in (tmp_path / "outside", folder / "in"):
        (parent / "a.txt").write_text("old")
    (folder / "in" / "deep" / "b.txt").write_text("old")
    async with agent:
        (folder / "in" / "a.txt").write_text("agent")
        (folder / "in" / "deep" / "b.txt").unlink()
        (tmp_path / "outside" / "new.txt").write_text("outside")
        (folder / "in" / "new.txt").write_text("agent")

    def swap(reached: str) -> None:
        if reached == point and not (folder / "in").is_symlink():
            shutil.rmtree(folder / "in")
            (folder / "in").symlink_to(tmp_path / "outside")

    monkeypatch.setattr("agentrail.adapters.sandboxes.kept_files.files_restore.reach", swap)
    restored = await agent.snapshots.restore(agent.spans, "s")
    assert {"in/a.txt", "in/deep/b.txt"} <= {file.path for file in restored.left_out}
    assert names_in(tmp_path / "outside") == ["a.txt", "deep", "new.txt"]
    assert (tmp_path / "outside" / "a.txt").read_text() == "old"
    assert names_in(tmp_path / "outside" / "deep") == []


def test_snapshots_are_taken_only_if_they_are_asked_for(folder: Path) -> None:
    assert LocalSandbox(folder).snapshots is None


async def test_a_file_that_did_not_change_is_not_read_again(
    folder: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.sandboxes.kept_files.tree_scan.SETTLED_NS", -(10**12))
    contents: list[str] = []

    def content(fd: int, name: str) -> tuple[bytes, FileState, FileState]:
        contents.extend([name] if name.endswith(".txt") else [])
        return _content(fd, name)

    monkeypatch.setattr("agentrail.adapters.sandboxes.kept_files.tree_scan._content", content)
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("old")
    first = await agent.snapshots.take("s")
    contents.clear()
    assert await agent.snapshots.take("s") == first
    assert contents == []
    (folder / "a.txt").write_text("longer")
    await agent.snapshots.take("s")
    assert contents == ["a.txt"]


async def test_old_snapshots_and_those_of_deleted_sessions_go(
    folder: Path, agent: Agent, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "agentrail.adapters.sandboxes.kept_files.taken_log"
    (folder / "a.txt").write_text("first")
    async with agent:
        (folder / "a.txt").write_text("second")
    other = (await agent.snapshots.take("other")).id
    forget_owners({"s"})
    with pytest.raises(UsageError, check=coded("snapshot-gone")):
        await agent.snapshots.preview(agent.spans, "other")
    (folder / "a.txt").write_text("third")
    now = (await agent.snapshots.take("other")).id
    assert (await agent.snapshots.preview([FileSpan(other, now)], "other")).files == (RewoundFile("a.txt", "restored"),)
    later = time.time_ns() + (KEEP_DAYS + 1) * 24 * 3600 * 10**9
    monkeypatch.setattr(f"{module}.time.time_ns", lambda: later)
    await agent.snapshots.take("other")
    assert len(contents_in(stores)) == 4  # of the last snapshot: the file, its folder, what is left out, and the whole


@pytest.mark.parametrize(
    ("bound", "value", "text"),
    [
        ("MAX_ENTRIES", 3, "more than 3 files"),
        ("MAX_TOTAL", 7, "more than 7 bytes"),
        ("RULE_STEPS", 4_000, "so many rules in `.gitignore`"),
    ],
)
async def test_a_folder_with_too_much_says_so(
    folder: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, text: str
) -> None:
    (folder / ".gitignore").write_text("*a*b*c\n" * 5)
    await agent.snapshots.take("s")
    monkeypatch.setattr(f"agentrail.adapters.sandboxes.kept_files.tree_scan.{bound}", value)
    for number in range(100):
        (folder / str(number)).write_text("xx")
    with pytest.raises(OutsideError, match=text, check=coded("snapshot-too-large")):
        await agent.snapshots.take("s")


async def test_a_record_of_a_stranger_names_no_snapshot_but_those_that_were_taken(
    folder: Path, agent: Agent, stores: Path
) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for name in ("files", "left"):  # a folder of the agent that has the form of a snapshot
        (folder / "sub" / name).mkdir(parents=True)
        (folder / "sub" / name / "a.txt").write_text("forged")
    async with agent:
        (folder / "a.txt").write_text("agent")
    span = agent.spans[0]
    known_trees = {"".join(path.parts[-2:]) for path in contents_in(stores)} - {span.before, span.after}
    for forged in (f"..{pipe}", "../dev/zero", "\x1b]0;x", "", *known_trees):
        with pytest.raises(UsageError, check=coded("snapshot-gone")) as refused:
            await agent.snapshots.restore([FileSpan(forged, span.after)], "s", over_edits=True)
        assert str(refused.value).isprintable()
    assert (folder / "a.txt").read_text() == "agent"


async def test_a_line_of_the_log_that_a_full_disk_has_cut_spoils_no_other(
    folder: Path, agent: Agent, stores: Path
) -> None:
    await agent.snapshots.take("s")
    cut_line(stores, b'[17000, "s", "ab')
    (folder / "a.txt").write_text("old")
    async with agent:
        (folder / "a.txt").write_text("agent")
    await agent.snapshots.restore(agent.spans, "s")
    assert (folder / "a.txt").read_text() == "old"
