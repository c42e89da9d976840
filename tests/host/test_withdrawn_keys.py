"""A key that is withdrawn ends its open streams at their next heartbeat."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.errors import AgentrailError
from agentrail.host import ApiKeys, HostLimits
from agentrail.host.authentication.api_keys import NO_SUCH_KEY, KeyFile, new_key
from agentrail.host.authentication.authenticators import KeyWatch
from tests.host.hosted import MADE, Desk, Listener, frames, listening, open_desk, scripted
from tests.host.websocket.talking import Talker, talking

LIMITS: Final = HostLimits(heartbeat_seconds=0.2, drain_seconds=0.5)
STREAMS: Final = 5


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[Desk, KeyFile]]:
    (folder / "folder").mkdir()
    file = KeyFile(folder / "folder" / "keys")
    for row, _ in MADE.values():
        file.add(row)
    async with open_desk(scripted("one"), keys=ApiKeys(file.path), limits=LIMITS) as desk:
        for user in ("ann", "bob"):
            await desk.clients[user].post("/v1/sessions", json={"session": "trip"})
        yield desk, file


async def ended(listener: Listener) -> None:
    last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
    assert '"status":401' in last["data"]
    await listener.until(lambda _: False)
    assert listener.over


@pytest.mark.long
@pytest.mark.parametrize("how", ["withdrawn", "no file", "a folder that cannot be entered", "a file of others"])
async def test_all_streams_of_a_key_end_and_no_others(how: str, tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with opened(tmp_path) as (desk, file), AsyncExitStack() as stack:
            path = "/v1/sessions/trip/events"
            listeners = [await stack.enter_async_context(listening(desk, "GET", path)) for _ in range(STREAMS)]
            talkers: list[Talker] = [await stack.enter_async_context(talking(desk)) for _ in range(STREAMS)]
            of_bob = await stack.enter_async_context(listening(desk, "GET", path, user="bob"))
            socket_of_bob = await stack.enter_async_context(talking(desk, "bob"))
            for listener in (*listeners, of_bob):
                await listener.until(lambda text: ":\n\n" in text)
            for talker in (*talkers, socket_of_bob):
                assert (await talker.ask("commands"))["status"] == 200
            if how == "withdrawn":
                file.withdraw(MADE["ann"][0].id)
            elif how == "no file":
                file.path.unlink()
            elif how == "a file of others":
                file.path.chmod(0o666)
            else:  # root may enter any folder, and meets the same kind of error at a name that is too long
                file.path.parent.rename(tmp_path / "elsewhere")
                file.path.parent.symlink_to("x" * 300)
            for listener in listeners:
                await ended(listener)
            for talker in talkers:
                assert await talker.closed() == (1008, "the key is not valid")
            if how == "withdrawn":
                assert (await socket_of_bob.ask("commands"))["status"] == 200
                assert not of_bob.over
                assert "problem" not in of_bob.text
            else:
                await ended(of_bob)
                assert await socket_of_bob.closed() == (1008, "the key is not valid")
                assert (await desk.clients["bob"].get("/v1/sessions/trip")).status_code == 401
            assert (await desk.clients["bob"].get("/healthz")).status_code == 200


class Failing(ApiKeys):
    """Keys of a file at which some looks fail, as they do if the system has no thread left."""

    looks = 0

    async def refresh(self) -> None:
        self.looks += 1
        if self.looks in {2, 3}:  # the first one is of the request
            problem = "can't start new thread"
            raise RuntimeError(problem)
        await super().refresh()


async def withdrawn(file: KeyFile, keys: ApiKeys) -> AgentrailError:
    """Return what ends a stream of a key that is withdrawn when the stream has begun, with the limits of a host."""
    row, key = new_key("acme", "ann", ["talk"])
    file.add(row)
    headers = [("authorization", f"Bearer {key}")]
    began = await keys.identify(headers)
    file.withdraw(row.id)
    return await KeyWatch(keys, HostLimits()).refusal(began, headers)


async def test_by_default_a_stream_ends_within_fifteen_seconds_of_its_key(
    tmp_path: Path,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(new_key("acme", "bob", ["talk"])[0])
    refused = await withdrawn(file, ApiKeys(file.path))
    assert (str(refused).startswith(NO_SUCH_KEY), trio.current_time()) == (True, 15)


async def test_a_look_that_fails_ends_no_stream_and_is_made_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(new_key("acme", "bob", ["talk"])[0])
    refused = await withdrawn(file, Failing(file.path))
    assert (str(refused).startswith(NO_SUCH_KEY), trio.current_time()) == (True, 45)
    assert [record.getMessage() for record in caplog.records] == [
        "the look at the keys of open streams failed; it is made again"
    ]
