"""What an agent wrote, over real sockets and by a remote handle: which files there are, whose, and how sent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio

from agentrail import SessionSpec, connect
from agentrail.api.operation_table import CALLS
from agentrail.errors import BadProfile, UsageError
from agentrail.host import HostLimits, Profile
from agentrail.host.operations.file_calls import PIECE
from agentrail.host.profiles import ProfileTable
from agentrail.host.uploads import written_files
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import Content, LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.host.hosted import KEYS, Desk, open_desk
from tests.kit import Element

FILES: Final = "/v1/sessions/trip/files"
FILE: Final = "/v1/sessions/trip/file"


def wrote(path: str, content: str = "tea") -> Element:
    return say(calls=[call("write_file", {"path": path, "content": content})])


def edited(path: str, old: str, new: str) -> Element:
    return say(calls=[call("edit_file", {"path": path, "old_text": old, "new_text": new})])


def profile(root: Path, *script: Element, outputs: Sequence[str] = ()) -> list[Profile]:
    model = ScriptedModel([*script, "done", "done", "done"])
    return [
        Profile("desk", SessionSpec(model=model, sandbox=LocalSandbox(root), tools=standard_tools()), outputs=outputs)
    ]


async def chat(desk: Desk, session: str = "trip") -> None:
    answer = await desk.ann.post("/v1/chat", json={"message": "write", "session": session})
    assert answer.status_code == 200, answer.text


async def paths(desk: Desk, target: str = FILES) -> list[str]:
    return [item["path"] for item in (await desk.ann.get(target)).json()["items"]]


async def fetch(desk: Desk, path: str, user: str = "ann", target: str = FILE) -> httpx.Response:
    return await desk.clients[user].get(target, params={"path": path})


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, str(response.json().get("type", "")).removeprefix("urn:agentrail:problem:")


MISSING: Final = (404, "no-written-file")


async def test_what_the_file_tools_wrote_is_listed_and_sent(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("not the agent's")
    (tmp_path / "old.txt").write_text("tea at four")
    edit = edited("./old.txt", "four", "five")
    page = wrote("pages/Ü b.html", "<script>alert(1)</script>")
    failed = edited("other.txt", "coffee", "tea")
    async with open_desk(profile(tmp_path, edit, page, failed, wrote("gone.txt"))) as desk:
        await chat(desk)
        (tmp_path / "gone.txt").unlink()
        assert (await desk.ann.get(FILES)).json() == {
            "items": [
                {"path": "old.txt", "size": 11, "media_type": "text/plain"},
                {"path": "pages/Ü b.html", "size": 25, "media_type": "text/plain"},
            ],
            "next": None,
            "cut": False,
        }
        sent = await fetch(desk, "pages/Ü b.html")
        assert (sent.status_code, sent.text) == (200, "<script>alert(1)</script>")
        assert sent.headers["content-type"] == "text/plain; charset=utf-8"
        assert sent.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%9C%20b.html"
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert sent.headers["content-security-policy"] == "default-src 'none'; sandbox"
        tag = {"if-none-match": sent.headers["etag"]}
        known = await desk.ann.get(FILE, params={"path": "pages/Ü b.html"}, headers=tag)
        assert (known.status_code, known.content) == (304, b"")
        (tmp_path / "pages" / "Ü b.html").write_bytes(b"\x89PNG\r\n\x1a\n")
        changed = await desk.ann.get(FILE, params={"path": "pages/Ü b.html"}, headers=tag)
        assert (changed.status_code, changed.headers["content-type"]) == (200, "image/png")
        for path in ("other.txt", "gone.txt", "./old.txt", "pages", "pages/../old.txt", "/etc/passwd", "."):
            assert outcome(await fetch(desk, path)) == MISSING, path


async def test_nothing_outside_and_nothing_hidden_is_sent(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret.txt"
    root.mkdir()
    secret.write_text("password")
    names = ["link.txt", "hard.txt", "pipe.txt", "folder.txt", "inner/file.txt", "sub/.env.txt"]
    async with open_desk(profile(root, *map(wrote, names))) as desk:
        await chat(desk)
        assert await paths(desk) == sorted(names)
        for name in names:
            (root / name).unlink()
        (root / "link.txt").symlink_to(secret)
        (root / "hard.txt").hardlink_to(secret)
        os.mkfifo(root / "pipe.txt")
        (root / "folder.txt").mkdir()
        (root / "inner").rmdir()
        (tmp_path / "outer").mkdir()
        (tmp_path / "outer" / "file.txt").write_text("password")
        (root / "inner").symlink_to(tmp_path / "outer")
        (root / ".env").write_text("KEY=password")
        (root / "sub" / ".env.txt").symlink_to("../.env")
        with trio.fail_after(20):
            assert await paths(desk) == []
            for name in names:
                assert outcome(await fetch(desk, name)) == MISSING, name


async def test_a_file_belongs_to_whoever_the_session_belongs_to(tmp_path: Path) -> None:
    async with open_desk(profile(tmp_path, wrote("a.txt"))) as desk:
        await chat(desk)
        there = "/v1/sessions/ann.trip/file"
        for user, status in {"bob": 404, "eve": 404, "boss": 200}.items():
            for target in (there, f"{there}s", f"{there}/piece"):
                answer = await desk.clients[user].get(target, params={} if target.endswith("s") else {"path": "a.txt"})
                assert answer.status_code == status, (user, target)
        async with httpx.AsyncClient(base_url=desk.serving.url, trust_env=False) as nobody:
            assert (await nobody.get(FILE, params={"path": "a.txt"})).status_code == 401
        await chat(desk, "other")
        assert await paths(desk, "/v1/sessions/other/files") == []
        assert outcome(await fetch(desk, "a.txt", target="/v1/sessions/other/file")) == MISSING


async def test_outputs_of_a_profile_are_listed_too(tmp_path: Path) -> None:
    for name in ("outputs/chart.png", "outputs/deep/a.csv", "b.csv", "uploads/1/b.csv", "outputs/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "outputs" / "out").symlink_to("/etc")
    (tmp_path / "outputs" / "passwd").symlink_to("/etc/passwd")
    async with open_desk(profile(tmp_path, wrote("z.txt"), outputs=["outputs/**", "*.csv", "missing/*"])) as desk:
        await chat(desk)
        assert await paths(desk) == ["b.csv", "outputs/chart.png", "outputs/deep/a.csv", "z.txt"]
        assert (await fetch(desk, "outputs/deep/a.csv")).text == "1"
        for name in ("outputs/.env", "outputs/passwd", "outputs/out/passwd", "uploads/1/b.csv"):
            assert outcome(await fetch(desk, name)) == MISSING
    for wrong in (["../**"], "outputs/**", [5], 5):
        with pytest.raises(BadProfile, match="outputs"):
            ProfileTable([profile(tmp_path)[0].but(outputs=wrong)])


async def test_lists_and_files_have_limits(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(5)]
    limits = HostLimits(file_bytes=1000, session_files=4)
    async with open_desk(profile(tmp_path, *map(wrote, names)), limits=limits) as desk:
        await chat(desk)
        first = (await desk.ann.get(FILES, params={"limit": 3})).json()
        assert ([item["path"] for item in first["items"]], first["next"], first["cut"]) == (names[1:4], "3.txt", True)
        second = (await desk.ann.get(FILES, params={"limit": 3, "after": "3.txt"})).json()
        assert ([item["path"] for item in second["items"]], second["next"]) == (["4.txt"], None)
        (tmp_path / "4.txt").write_bytes(b"x" * 1000)
        assert len((await fetch(desk, "4.txt")).content) == 1000
        (tmp_path / "4.txt").write_bytes(b"x" * 1001)
        assert outcome(await fetch(desk, "4.txt")) == (409, "file-too-large")
        assert outcome(await fetch(desk, "0.txt")) == MISSING


async def test_what_was_written_outlives_the_host_and_a_fork_has_it(tmp_path: Path) -> None:
    journal, root = tmp_path / "journal.db", tmp_path / "root"
    async with open_desk(profile(root, wrote("a.txt")), journal=SqliteJournal(journal)) as desk:
        await chat(desk)
    async with open_desk(profile(root), journal=SqliteJournal(journal)) as desk:
        assert await paths(desk) == ["a.txt"]
        forked = await desk.ann.post("/v1/sessions/trip/fork", json={"session": "fork"})
        assert forked.status_code == 201
        assert await paths(desk, "/v1/sessions/fork/files") == ["a.txt"]
        redacted = await desk.clients["boss"].delete("/v1/sessions/ann.trip", params={"redact": "true"})
        assert redacted.status_code == 200
        assert await paths(desk) == []


async def test_of_a_long_history_the_last_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(profile(tmp_path, wrote("a.txt"), "one", wrote("b.txt"))) as desk:
        await chat(desk)
        records = (await desk.clients["boss"].get("/v1/sessions/ann.trip")).json()["records"]
        await chat(desk)
        total = (await desk.clients["boss"].get("/v1/sessions/ann.trip")).json()["records"]
        monkeypatch.setattr(written_files, "INSIGHT_RECORDS", total - records)
        assert (await desk.ann.get(FILES)).json()["cut"]
        assert await paths(desk) == ["b.txt"]


async def test_a_file_that_changes_while_it_is_sent_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    plain_read = LocalSandbox.read

    async def read(sandbox: LocalSandbox, path: str, offset: int = 0, limit: int = 1) -> Content:
        content = await plain_read(sandbox, path, offset, limit)
        reads.append(offset)
        if reads.count(0) == 3 and path == "a.txt":  # the third time it is sent
            (tmp_path / "a.txt").write_bytes(b"y" * 2 * PIECE)
        return content

    async with open_desk(profile(tmp_path, wrote("a.txt"))) as desk:
        await chat(desk)
        (tmp_path / "a.txt").write_bytes(b"x" * 2 * PIECE)
        monkeypatch.setattr(LocalSandbox, "read", read)
        with pytest.raises(httpx.RemoteProtocolError):
            await fetch(desk, "a.txt")


async def test_a_remote_handle_lists_and_reads_files(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3000
    async with open_desk(profile(tmp_path, wrote("a.bin"), wrote("empty.txt", ""))) as desk:
        await chat(desk)
        (tmp_path / "a.bin").write_bytes(content)
        async with connect(desk.serving.url, KEYS["ann"]) as supervisor:
            session = supervisor.session("trip")
            files = {file.path: file for file in await session.files()}
            assert [(file.path, file.size) for file in files.values()] == [("a.bin", len(content)), ("empty.txt", 0)]
            assert (await files["a.bin"].read(), await files["empty.txt"].read()) == (content, b"")
            (tmp_path / "a.bin").unlink()
            with pytest.raises(UsageError, match=r"has no 'a\.bin'"):
                await files["a.bin"].read()


def test_the_calls_need_what_reading_messages_needs() -> None:
    for name in ("files", "file", "file_piece"):
        assert (CALLS[name].scope, CALLS[name].others) == (CALLS["messages"].scope, CALLS["messages"].others)
