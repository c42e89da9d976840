"""Several terminals on one journal without unix sockets: a port of this machine, and a token in a file of the user."""

import hmac
import json
import os
import re
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
import trio
from trio_websocket import wrap_client_stream

from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host import loopback_endpoint, shared_host
from agentrail.cli.host.holder_file import HolderFile, read_holder
from agentrail.cli.host.loopback_endpoint import LoopbackEndpoint, file_of, proof_of
from agentrail.cli.host.shared_host import is_served, open_served, open_shared
from agentrail.errors import CannotListen
from agentrail.events import AgentEnd
from tests.cli.calling import subcommand
from tests.patience import PATIENCE

main = subcommand("sessions")


@pytest.fixture(autouse=True)
def _no_unix_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_host, "HAS_UNIX_SOCKETS", False)
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))


def holder_of(journal: Path) -> tuple[int, str]:
    content = json.loads(file_of(journal).read_bytes())
    return content["port"], content["token"]


def source_in(folder: Path) -> AgentSource:
    return AgentSource(str(folder), model="demo")


# Sharing


@pytest.mark.long
async def test_the_first_one_serves_the_second_one(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    async with open_shared(journal, profile_of) as first:
        assert file_of(journal).stat().st_mode & 0o777 == 0o600
        assert file_of(journal).parent.stat().st_mode & 0o777 == 0o700
        session = await first.spawn(AgentSeal(journal).begun(source).id, "talk", labels=[source.label])
        async with open_shared(journal, profile_of) as second, open_served(journal) as third:
            await session.ask("Who are you?")
            for other in (second, third):
                assert (await other.session("talk").messages())[0].text == "Who are you?"
        assert await is_served(journal)
    assert not file_of(journal).exists()
    assert not await is_served(journal)


@pytest.mark.long
async def test_when_the_one_that_serves_leaves_another_goes_on_under_a_new_token(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            served, leave = trio.Event(), trio.Event()

            async def serve() -> None:
                async with open_shared(journal, profile_of) as first:
                    await first.spawn(AgentSeal(journal).begun(source).id, "talk")
                    served.set()
                    await leave.wait()

            nursery.start_soon(serve)
            await served.wait()
            old_holder = holder_of(journal)
            async with open_shared(journal, profile_of) as second, second.session("talk").subscribe() as events:
                leave.set()
                await second.session("talk").ask("Who are you?")
                async for envelope in events:
                    if isinstance(envelope.event, AgentEnd):
                        break
                assert holder_of(journal)[1] != old_holder[1]


@pytest.mark.long
async def test_of_three_that_start_at_once_one_serves_the_others(tmp_path: Path) -> None:
    journal, source, names = tmp_path / "j.db", source_in(tmp_path), ("a", "b", "c")
    opened = dict.fromkeys(names, False)
    all_opened = trio.Event()

    async def share(name: str) -> None:
        async with open_shared(journal, profile_of) as supervisor:
            await supervisor.spawn(AgentSeal(journal).begun(source).id, name, labels=[source.label])
            opened[name] = True
            if all(opened.values()):
                all_opened.set()
            await all_opened.wait()
            assert {stored.session_id for stored in await supervisor.stored()} == {f"you.{name}" for name in names}

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(share, name)


@pytest.mark.long
async def test_a_session_is_forked_by_whoever_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    async with open_shared(journal, profile_of) as first:
        session = await first.spawn(AgentSeal(journal).begun(source).id, "talk", labels=[source.label])
        await session.ask("Who are you?")
        assert await trio.to_thread.run_sync(main, ["fork", "talk", "--journal", str(journal)]) == 0
        name = capsys.readouterr().out.strip()
        assert (await first.session(name).messages())[0].text == "Who are you?"


# Who may


async def test_a_process_without_the_token_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    async with open_shared(journal, profile_of):
        port, token = holder_of(journal)
        challenge = "0" * 64
        proof = proof_of(token, challenge)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            for headers in (
                {},
                {"authorization": "Bearer whoever-reaches-the-socket"},
                {"authorization": f"Bearer {proof}", "agentrail-challenge": "no challenge"},
                {"authorization": f"Bearer {proof}"},
            ):
                refused = await client.get("/v1/sessions", headers=headers)
                assert refused.status_code == 401
                assert token not in refused.text
            answered = await client.get("/v1/sessions", headers={"agentrail-challenge": challenge})
            assert answered.status_code == 401
            assert proof in answered.text
            assert token not in answered.text
            with_token = {"authorization": f"Bearer {token}"}
            assert (await client.get("/v1/sessions", headers=with_token)).status_code == 200
            other_site = {**with_token, "host": "evil.example"}
            assert (await client.get("/v1/sessions", headers=other_site)).status_code == 403
        # Browsers send the key later. The client may leave its socket open if the host is the first to close.
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream, trio.open_nursery() as nursery:
            websocket = await wrap_client_stream(
                nursery, stream, f"127.0.0.1:{port}", "/v1/ws", subprotocols=["agentrail.v1"]
            )
            await websocket.send_message(json.dumps({"id": "1", "call": "tree"}))
            assert '"error":"NotAuthenticated"' in str(await websocket.get_message())
            nursery.cancel_scope.cancel()


# Who is talked to

Stranger = Callable[[trio.SocketStream, bytearray], Awaitable[None]]


async def say_nothing(stream: trio.SocketStream, received: bytearray) -> None:
    async for chunk in stream:
        received += chunk


async def send_it_back(stream: trio.SocketStream, received: bytearray) -> None:
    async for chunk in stream:
        received += chunk
        await stream.send_all(chunk)


async def accept_everything(stream: trio.SocketStream, received: bytearray) -> None:
    async for chunk in stream:
        received += chunk
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def prove_something_else(stream: trio.SocketStream, received: bytearray) -> None:
    async for chunk in stream:
        received += chunk
        challenge = re.search(rb"[0-9a-f]{64}", chunk)
        proof = b"" if challenge is None else proof_of("guessed", challenge[0].decode()).encode()
        head = f"HTTP/1.1 401 No\r\nContent-Length: {len(proof)}\r\n\r\n".encode()
        await stream.send_all(head + proof)


async def hang_up(stream: trio.SocketStream, received: bytearray) -> None:
    received += await stream.receive_some()
    await stream.aclose()


async def send_without_end(stream: trio.SocketStream, received: bytearray) -> None:
    received += await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await stream.send_all(b"400\r\n" + b"x" * 0x400 + b"\r\n")


STRANGERS = (say_nothing, send_it_back, accept_everything, prove_something_else, hang_up, send_without_end)


@asynccontextmanager
async def listening(stranger: Stranger) -> AsyncGenerator[tuple[int, bytearray], None]:
    received = bytearray()

    async def handle(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stranger(stream, received)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield listener.socket.getsockname()[1], received
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_program_that_has_taken_the_port_gets_no_token_and_the_journal_is_served_anew(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback_endpoint, "PROVE_SECONDS", 1.0)
    journal = tmp_path / "j.db"
    async with listening(stranger) as (port, received):
        leave_behind(journal, port, "token-of-the-dead")
        assert not await is_served(journal)
        async with open_shared(journal, profile_of) as supervisor:
            await supervisor.spawn(AgentSeal(journal).begun(source_in(tmp_path)).id, "talk")
            assert holder_of(journal) != (port, "token-of-the-dead")
            assert await is_served(journal)
        assert b"GET /v1/sessions" in received
        assert b"token-of-the-dead" not in received
        assert b"authorization" not in bytes(received).lower()


def leave_behind(journal: Path, port: int, token: str) -> None:
    file = file_of(journal)
    file.touch(0o600)
    file.write_text(json.dumps({"port": port, "token": token}))


async def test_what_a_dead_process_has_left_is_taken_over(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    async with listening(say_nothing) as (port, _):
        pass
    leave_behind(journal, port, "token-of-the-dead")
    file_of(journal).chmod(0o600)
    async with open_shared(journal, profile_of):
        assert await is_served(journal)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b'{"port":70000,"token":"x"}', b'{"port":-1,"token":"x"}', b'{"port":1}', b"\xff" * 1000],
)
async def test_a_file_that_says_nothing_is_written_anew(content: bytes, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    file_of(journal).touch(0o600)
    file_of(journal).write_bytes(content)
    assert not await is_served(journal)
    async with open_shared(journal, profile_of):
        assert await is_served(journal)


def test_what_a_newer_version_adds_to_the_file_is_left_out(tmp_path: Path) -> None:
    """Else the older one of two versions in one folder would not find who serves the journal."""
    file = tmp_path / "served"
    file.touch(0o600)
    file.write_bytes(b'{"port": 8765, "token": "x", "newer": {"of": [1]}}')
    assert read_holder(file) == HolderFile(8765, "x")


@pytest.mark.parametrize("wrong", ["owner", "mode", "link", "folder"])
async def test_a_file_that_others_can_write_or_read_is_not_believed(wrong: str, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    file = file_of(journal)
    leave_behind(journal, 1, "planted")
    match wrong:
        case "owner":
            os.chown(file, 12345, 12345)
        case "mode":
            file.chmod(0o644)
        case "link":
            file.rename(tmp_path / "elsewhere")
            file.symlink_to(tmp_path / "elsewhere")
        case _:
            file.parent.chmod(0o755)
    with pytest.raises(CannotListen, match="not of this user alone"):
        async with open_shared(journal, profile_of):
            pass


async def test_the_key_of_a_line_is_that_of_the_process_that_was_reached(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    endpoint = LoopbackEndpoint(journal)
    old_header = endpoint.key.header
    async with open_shared(journal, profile_of):
        await trio.aclose_forcefully(await endpoint.reach())
        assert endpoint.key.header == (b"authorization", f"Bearer {holder_of(journal)[1]}".encode()) != old_header


def test_a_proof_is_a_code_of_the_challenge_and_not_the_token() -> None:
    proof = proof_of("secret", "0" * 64)
    assert proof == hmac.digest(b"secret", b"agentrail host " + b"0" * 64, "sha256").hex()
    assert proof != proof_of("secret", "1" * 64)


async def test_the_file_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    old_umask = os.umask(0)
    try:
        async with open_shared(journal, profile_of):
            assert stat.S_IMODE(file_of(journal).stat().st_mode) == 0o600
            assert stat.S_IMODE(file_of(journal).parent.stat().st_mode) == 0o700
    finally:
        os.umask(old_umask)
