"""Uploads over real sockets into real folders: limits to the byte, what a cut one leaves, and whose files they are."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.api.limits import DEFAULTS
from agentrail.host import HostLimits, Profile, RequestContext
from agentrail.host.uploads.session_files import PIECE, Incoming, folder_of
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.sandboxes import LocalSandbox, MemorySandbox, NextPiece, Written
from agentrail.testing import ScriptedModel, call, say, stall
from tests.host.hosted import KEYS, Desk, open_desk, scripted
from tests.runtime.families import agent, task

TRIP: Final = "/v1/sessions/trip/files"
FOLDER: Final = folder_of("h.acme.ann.trip")
SMALL: Final = HostLimits(file_bytes=1000)


def with_folder(root: Path) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["one", "two", "three"]), sandbox=LocalSandbox(root))


def sizes(root: Path) -> Sequence[int]:
    """Return the sizes of all files below *root*, without notes; a file that has no name yet counts too."""
    return sorted(path.stat().st_size for path in root.rglob("*") if path.is_file() and path.parent.name != "notes")


def notes(root: Path) -> int:
    return len(list(root.rglob("notes/*")))


@pytest.fixture(params=["without a name", "with a name"])
def _coming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that come be without a name until they are whole, or have one, as on systems that know no others."""
    if request.param == "with a name":
        monkeypatch.setattr("agentrail.adapters.sandboxes.files.NAMELESS", 0)


def coming(root: Path) -> list[int]:
    """Return the sizes of the files below *root* that this process has open, also of those without a name."""
    numbers: list[int] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as that of this listing
            if str(descriptor.readlink()).startswith(f"{root}/") and descriptor.is_file():
                numbers.append(descriptor.stat().st_size)
    return numbers


async def opened(desk: Desk, name: str = "trip", user: str = "ann") -> None:
    assert (await desk.clients[user].post("/v1/sessions", json={"session": name})).status_code == 201


async def upload(
    desk: Desk, content: bytes | AsyncIterator[bytes], name: str = "a.txt", media: str | None = None, user: str = "ann"
) -> httpx.Response:
    headers = {} if media is None else {"content-type": media}
    path = TRIP if user == "ann" else "/v1/sessions/ann.trip/files"
    return await desk.clients[user].post(path, content=content, params={"name": name}, headers=headers)


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, str(response.json().get("type", "")).removeprefix("urn:agentrail:problem:")


TAKEN: Final = (201, "")


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await trio.lowlevel.checkpoint()
        yield piece


async def test_a_file_is_stored_under_a_name_of_ours(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        uploaded = await upload(desk, b"tea at four", "Meine Übersicht.txt", "text/plain; charset=utf-8")
        name = uploaded.json()["name"]
        assert (uploaded.status_code, uploaded.json()) == (201, {"name": name, "media_type": "text/plain", "size": 11})
        assert name[12:] == "-Meine-Ubersicht.txt"
        again = await upload(desk, b"tea at five", "Meine Übersicht.txt", "text/plain")
        assert again.json()["name"] != name
        assert (tmp_path / FOLDER / name).read_bytes() == b"tea at four"
        assert (sizes(tmp_path), notes(tmp_path)) == ([11, 11], 2)


@pytest.mark.parametrize("announced", [True, False])
async def test_a_file_may_have_as_many_bytes_as_its_limit(tmp_path: Path, announced: bool) -> None:
    async with open_desk(with_folder(tmp_path), limits=SMALL) as desk:
        await opened(desk)
        for size in (1, 999, 1000):
            content = b"x" * size
            assert (
                outcome(await upload(desk, content if announced else in_pieces(content[:700], content[700:]))) == TAKEN
            )
        content = b"x" * 1001
        refused = await upload(desk, content if announced else in_pieces(content[:700], content[700:]))
        assert outcome(refused) == (413, "body-too-large")
        assert (sizes(tmp_path), notes(tmp_path)) == ([1, 999, 1000], 3)


@pytest.mark.long
async def test_a_large_file_is_taken_and_one_byte_more_is_not(tmp_path: Path) -> None:
    most = DEFAULTS.file_bytes
    assert most == 20 * 1024 * 1024
    block = b"x" * (most // 4 - 1)
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        assert (await upload(desk, in_pieces(*[block] * 4, b"1234"))).json()["size"] == most
        assert outcome(await upload(desk, in_pieces(*[block] * 4, b"12345"))) == (413, "body-too-large")
        assert sizes(tmp_path) == [most]


@pytest.mark.long
@pytest.mark.parametrize("announced", [True, False])
async def test_the_files_of_a_session_have_a_quota(tmp_path: Path, announced: bool) -> None:
    limits = HostLimits(file_bytes=1000, session_files_bytes=2500)

    async def send(size: int) -> tuple[int, str]:
        content = b"x" * size
        return outcome(await upload(desk, content if announced else in_pieces(content)))

    async with open_desk(with_folder(tmp_path), limits=limits, journal=SqliteJournal(tmp_path / "journal.db")) as desk:
        await opened(desk)
        assert [await send(1000), await send(1000), await send(501)] == [TAKEN, TAKEN, (409, "files-too-large")]
        assert await send(499) == TAKEN
    async with open_desk(with_folder(tmp_path), limits=limits, journal=SqliteJournal(tmp_path / "journal.db")) as desk:
        assert [await send(2), await send(1), await send(1)] == [
            (409, "files-too-large"),
            TAKEN,
            (409, "files-too-large"),
        ]
        assert await send(0) == (422, "bad-body")


async def test_uploads_at_once_share_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Incoming.check

    def noted(incoming: Incoming, more: int) -> None:
        """Tell when the host takes the first half: that it was sent says nothing."""
        check(incoming, more)
        if more == 600:
            half.set()

    monkeypatch.setattr(Incoming, "check", noted)
    limits = HostLimits(file_bytes=1000, session_files_bytes=2500, session_files=5)
    async with open_desk(with_folder(tmp_path), limits=limits) as desk:
        await opened(desk)
        answers = list[tuple[int, str]]()
        half, full = trio.Event(), trio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"x" * 600
            await full.wait()
            yield b"x" * 400

        async def upload_one() -> None:
            answers.append(outcome(await upload(desk, slowly())))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(upload_one)
            await half.wait()
            assert outcome(await upload(desk, b"x" * 1000)) == TAKEN
            assert outcome(await upload(desk, b"x" * 901)) == (409, "files-too-large")
            full.set()
        assert answers == [TAKEN]
        assert sizes(tmp_path) == [1000, 1000]


async def test_a_session_has_so_many_files_and_no_more(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path), limits=HostLimits(session_files=3)) as desk:
        await opened(desk)
        assert [outcome(await upload(desk, b"x")) for _ in range(4)] == [
            TAKEN,
            TAKEN,
            TAKEN,
            (409, "too-many-files"),
        ]
        assert (sizes(tmp_path), notes(tmp_path)) == ([1, 1, 1], 3)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_upload_without_a_body_is_refused_and_leaves_nothing(tmp_path: Path, announced: bool) -> None:
    async with open_desk(with_folder(tmp_path), limits=HostLimits(session_files=1)) as desk:
        await opened(desk)
        refused = await upload(desk, b"" if announced else in_pieces())
        assert outcome(refused) == (422, "bad-body")
        assert "it is empty, and must be the file itself" in refused.json()["detail"]
        assert (sizes(tmp_path), notes(tmp_path)) == ([], 0)
        assert outcome(await upload(desk, b"x")) == TAKEN


async def begin(desk: Desk, length: str, content: bytes) -> trio.SocketStream:
    """Send the beginning of an upload."""
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    head = f"POST {TRIP} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEYS['ann']}\r\n{length}\r\n\r\n"
    await stream.send_all(head.encode() + content)
    return stream


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in the host
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("length", "content"),
    [
        ("Content-Length: 500000", b"x" * 200_000),
        ("Transfer-Encoding: chunked", b"30d40\r\n" + b"x" * 200_000 + b"\r\n"),
    ],
)
@pytest.mark.usefixtures("_coming")
async def test_nothing_is_left_of_the_file_of_a_client_that_goes_away(
    tmp_path: Path, length: str, content: bytes
) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        stream = await begin(desk, length, content)
        await until(lambda: sum(coming(tmp_path)) > 0)
        await stream.aclose()
        await until(lambda: sizes(tmp_path) == coming(tmp_path) == [])
        assert notes(tmp_path) == 0
        assert outcome(await upload(desk, b"x")) == TAKEN


@pytest.mark.usefixtures("_coming")
async def test_nothing_is_left_if_the_host_ends_in_the_middle(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path), limits=HostLimits(drain_seconds=0.1)) as desk:
        await opened(desk)
        stream = await begin(desk, "Content-Length: 500000", b"x" * 200_000)
        await until(lambda: sum(coming(tmp_path)) > 0)
    await stream.aclose()
    assert sizes(tmp_path) == coming(tmp_path) == []


async def test_what_a_killed_process_has_left_is_removed_by_the_next_upload(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        (tmp_path / FOLDER).mkdir(parents=True)
        (tmp_path / FOLDER / ".agentrail-0011223344556677.tmp").write_bytes(b"x" * 100)
        assert outcome(await upload(desk, b"x")) == TAKEN
        assert sizes(tmp_path) == [1]


async def test_a_full_disk_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, room = os.write, [70_000]

    def write(fd: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= (taken := real(fd, data[: room[0]]))
        return taken

    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        monkeypatch.setattr("agentrail.adapters.sandboxes.files.os.write", write)
        refused = await upload(desk, b"x" * 100_000)
        monkeypatch.undo()
        assert outcome(refused) == (507, "disk-full")
        assert refused.headers["retry-after"] == "30"
        (line,) = [record.getMessage() for record in caplog.records if record.name == "agentrail.host"]
        request = refused.headers["x-request-id"]
        assert line == f"cannot upload the file: {refused.json()['title']} (request {request})"
        assert "DiskFull" in caplog.text, "its operator is told of it"
        assert (sizes(tmp_path), notes(tmp_path)) == ([], 0)


# Whose files they are


async def test_others_can_upload_nothing_and_cannot_tell_that_the_session_is_there(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        for user in ("bob", "eve"):
            foreign = await upload(desk, b"x", user=user)
            missing = await desk.clients[user].post("/v1/sessions/ann.none/files", content=b"x")
            assert outcome(foreign) == outcome(missing) == (404, "unknown-session")
            assert foreign.text.replace("ann.trip", "") == missing.text.replace("ann.none", "")
        assert sizes(tmp_path) == []
        assert outcome(await upload(desk, b"x", user="boss")) == TAKEN


async def test_a_file_is_named_by_no_other_session(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        for user, name in (("ann", "trip"), ("ann", "other"), ("bob", "trip"), ("eve", "trip")):
            await opened(desk, name, user)
        name = (await upload(desk, b"x")).json()["name"]
        for user, session in (("ann", "other"), ("ann", "new"), ("bob", "trip"), ("eve", "trip")):
            body = {"message": "hi", "session": session, "files": [name]}
            assert outcome(await desk.clients[user].post("/v1/chat", json=body)) == (422, "unknown-file")
        for user in ("bob", "eve"):
            body = {"message": "hi", "session": "ann.trip", "files": [name]}
            response = await desk.clients[user].post("/v1/chat", json=body)
            assert outcome(response) == ((404, "unknown-session") if user == "bob" else (422, "unknown-file"))
        sessions = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert [row["session"] for row in sessions] == ["ann.other", "ann.trip"]


@pytest.mark.parametrize("query", ["", "?redact"])
async def test_files_are_erased_with_the_texts_of_their_session(tmp_path: Path, query: str) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        for name in ("trip", "other"):
            await opened(desk, name)
            await desk.ann.post(f"/v1/sessions/{name}/files", content=b"x")
        assert sizes(tmp_path) == [1, 1]
        assert (await desk.clients["boss"].delete(f"/v1/sessions/ann.trip{query}")).status_code == 200
        assert (sizes(tmp_path), (tmp_path / FOLDER).exists()) == ([1], False)


async def test_files_stay_if_the_texts_of_their_session_may_not_be_erased(tmp_path: Path) -> None:
    journal, spec = MemoryJournal(), with_folder(tmp_path).but(model=ScriptedModel([stall(after=1)]))
    async with open_desk(spec, journal=journal) as desk, open_desk(spec, journal=journal) as another:
        await opened(desk)
        assert outcome(await upload(desk, b"x")) == TAKEN
        assert (await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"})).status_code == 202
        refused = await another.clients["boss"].delete("/v1/sessions/ann.trip?redact")
        assert outcome(refused) == (409, "session-unfinished")
        assert sizes(tmp_path) == [1]


async def test_files_of_a_session_that_is_only_stored_are_erased_with_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    root = tmp_path / "root"
    root.mkdir()
    async with open_desk(with_folder(root), journal=SqliteJournal(path)) as desk:
        await opened(desk)
        assert outcome(await upload(desk, b"x")) == TAKEN
    async with open_desk(with_folder(root), journal=SqliteJournal(path)) as desk:
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        assert sizes(root) == []


async def test_a_session_can_be_deleted_whose_profile_is_gone_and_its_files_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.db"
    root = tmp_path / "root"
    root.mkdir()
    async with open_desk([Profile("old", with_folder(root))], journal=SqliteJournal(path)) as desk:
        await opened(desk)
        assert outcome(await upload(desk, b"x")) == TAKEN
    async with open_desk([Profile("new", with_folder(root))], journal=SqliteJournal(path)) as desk:
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        assert sizes(root) == [1]
    assert "the uploaded files of `h.acme.ann.trip`, which is erased, stay" in caplog.text


@pytest.mark.usefixtures("_coming")
async def test_an_upload_under_way_ends_when_its_session_is_deleted(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        stream = await begin(desk, "Content-Length: 500000", b"x" * 200_000)
        await until(lambda: sum(coming(tmp_path)) > 0)
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        with trio.fail_after(20):
            assert b"HTTP/1.1 404 " in await stream.receive_some(4096)
        await stream.aclose()
        assert sizes(tmp_path) == coming(tmp_path) == []


# Sandboxes


async def test_a_session_without_a_sandbox_says_so() -> None:
    class Plain(MemorySandbox):
        receive = remove = None  # type: ignore[assignment]

    bare = scripted("one")
    async with open_desk([Profile("bare", bare), Profile("plain", bare.but(sandbox=Plain()))]) as desk:
        await opened(desk)
        response = await upload(desk, b"x")
        assert outcome(response) == (409, "files-not-taken")
        assert "its `SessionSpec` has no `sandbox`; have the operator give it one" in response.text
        await desk.ann.post("/v1/sessions", json={"session": "other", "agent": "plain"})
        response = await desk.ann.post("/v1/sessions/other/files", content=b"x")
        assert outcome(response) == (409, "files-not-taken")
        assert "its sandbox has no `receive` and no `remove`" in response.text
        body = {"message": "hi", "session": "trip", "files": ["0123456789ab-x"]}
        assert outcome(await desk.ann.post("/v1/chat", json=body)) == (422, "unknown-file")


async def test_a_sub_agent_takes_no_files_of_its_own(tmp_path: Path) -> None:
    here = trio.Event()

    @tool
    async def stay() -> str:
        """Stay."""
        here.set()
        await trio.sleep_forever()
        return ""

    finder = agent([say(calls=[call("stay", {})])], tools=[stay])
    spec = with_folder(tmp_path).but(model=ScriptedModel([task(), "done"]), agents={"finder": finder})
    async with open_desk(spec) as desk:
        await opened(desk)
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await here.wait()
        response = await desk.ann.post("/v1/sessions/ann.trip.c3/files", content=b"x")
        assert outcome(response) == (409, "files-not-taken")
        assert "upload them to the session of that agent" in response.text
        assert sizes(tmp_path) == []


@pytest.mark.long
async def test_a_session_that_is_stored_or_sleeps_takes_files_and_has_those_of_before(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    spec = with_folder(tmp_path).but(hibernate_after=0.05)
    async with open_desk(spec, journal=SqliteJournal(path)) as desk:
        await opened(desk)
        first = (await upload(desk, b"x")).json()["name"]
        with trio.fail_after(20):
            while (await desk.clients["boss"].get("/v1/tree")).json()["children"][0]["state"] != "asleep":  # noqa: ASYNC110 - by HTTP
                await trio.sleep(0.05)
        second = (await upload(desk, b"y")).json()["name"]
    async with open_desk(spec, journal=SqliteJournal(path)) as desk:
        third = (await upload(desk, b"z")).json()["name"]
        body = {"message": "hi", "session": "trip", "files": [first, second, third]}
        assert (await desk.ann.post("/v1/chat", json=body)).json()["text"] == "one"


async def test_the_files_of_each_session_are_in_the_sandbox_that_was_made_for_it() -> None:
    sandboxes = list[MemorySandbox]()

    def build(_: object) -> SessionSpec:
        sandboxes.append(MemorySandbox())
        return scripted("one").but(sandbox=sandboxes[-1])

    async with open_desk([Profile("desk", build)]) as desk:
        await opened(desk, "other")
        await opened(desk)
        assert outcome(await upload(desk, b"x")) == TAKEN
        assert (await desk.ann.post("/v1/sessions/other/fork", json={"session": "third"})).status_code == 201
        assert (await desk.ann.post("/v1/sessions/third/files", content=b"of third")).status_code == 201
        assert [sorted(data for data in sandbox.files.values() if b"{" not in data) for sandbox in sandboxes] == [
            [],
            [b"x"],
            [b"of third"],
        ]


async def test_files_of_a_fork_are_there_after_a_restart_and_are_erased_with_it(tmp_path: Path) -> None:
    def build(context: RequestContext) -> SessionSpec:
        root = tmp_path / context.session_id
        root.mkdir(exist_ok=True)
        return with_folder(root)

    journal = MemoryJournal()
    async with open_desk([Profile("desk", build)], journal=journal) as desk:
        await opened(desk)
        assert (await desk.ann.post("/v1/sessions/trip/fork", json={"session": "copy"})).status_code == 201
        name = (await desk.ann.post("/v1/sessions/copy/files", content=b"x")).json()["name"]
    async with open_desk([Profile("desk", build)], journal=journal) as desk:
        body = {"message": "hi", "session": "copy", "files": [name]}
        assert (await desk.ann.post("/v1/chat", json=body)).status_code == 200
        assert desk.serving.supervisor.sessions() == (desk.serving.supervisor.session("h.acme.ann.copy"),)
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.copy")).status_code == 200
        assert (sizes(tmp_path), notes(tmp_path)) == ([], 0)


# Clients


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("how", [("-X", "POST", "-T"), ("--data-binary",)])
async def test_curl_uploads_a_file(tmp_path: Path, how: tuple[str, ...]) -> None:
    source_file = tmp_path / "given.png"
    source_file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 2_000_000)
    root = tmp_path / "root"
    root.mkdir()
    async with open_desk(with_folder(root)) as desk:
        await opened(desk)
        source = str(source_file) if how[-1] == "-T" else f"@{source_file}"
        url = f"{desk.serving.url}{TRIP}?name=given.png"
        command = ["curl", "-sS", "--noproxy", "*", "-H", f"Authorization: Bearer {KEYS['ann']}", *how, source, url]
        body = httpx.Response(200, content=(await trio.run_process(command, capture_stdout=True)).stdout).json()
        assert body == {"name": body["name"], "media_type": "image/png", "size": 2_000_008}
        assert sizes(root) == [2_000_008]


async def test_a_form_is_no_file(tmp_path: Path) -> None:
    async with open_desk(with_folder(tmp_path)) as desk:
        await opened(desk)
        response = await desk.ann.post(TRIP, files={"file": b"content"})
        assert outcome(response) == (415, "wrong-media")
        assert "send `application/octet-stream`" in response.text
        assert sizes(tmp_path) == []


NAMES: Final = (
    "../../x",
    "..\\x",
    "a\r\nb: c",
    "x" * 200,
    ".bashrc",
    "CON",
    "漢字.png",
    "\u202egnp.exe",
    "/etc/x",
    "a b&c",
)


@pytest.mark.long
async def test_no_name_of_a_client_leads_out_of_the_folder_of_its_session(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    async with open_desk(with_folder(root)) as desk:
        await opened(desk)
        for name in NAMES:
            assert outcome(await upload(desk, b"x", name)) == TAKEN
        assert outcome(await upload(desk, b"x", "a\0b")) == (400, "malformed-request")
        for query in ("name=", f"name={'x' * 201}", "name=%ED%A0%80", "name=%FF", "name=a&name=b", "path=a"):
            assert outcome(await desk.ann.post(f"{TRIP}?{query}", content=b"x")) == (400, "bad-query")
    assert (len(sizes(root / FOLDER)), len(sizes(tmp_path))) == (len(NAMES), len(NAMES))


async def test_a_sandbox_gets_a_file_in_small_pieces() -> None:
    sizes_of_pieces = list[int]()

    class Measuring(MemorySandbox):
        async def receive(self, path: str, next_piece: NextPiece) -> Written:
            while piece := await next_piece():
                sizes_of_pieces.append(len(piece))
            return Written(sum(sizes_of_pieces), created=True)

    async with open_desk(scripted("one").but(sandbox=Measuring())) as desk:
        await opened(desk)
        assert outcome(await upload(desk, in_pieces(*[b"x" * 5] * 10, b"y" * 3_000_000, *[b"z"] * 10))) == TAKEN
    assert sum(sizes_of_pieces) == 3_000_060
    assert max(sizes_of_pieces) < 2 * PIECE
    assert min(sizes_of_pieces[:-1]) >= PIECE
