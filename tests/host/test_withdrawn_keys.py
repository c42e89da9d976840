"""A key that is withdrawn ends its open streams, however rarely they are looked at for another reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.errors import AgentrailError
from agentrail.host import ApiKeys, HostLimits
from agentrail.host.authentication.api_keys import FRESH, NO_SUCH_KEY, KeyFile, new_key
from agentrail.host.authentication.key_watch import KeyWatch
from tests.host.hosted import MADE, Desk, Listener, frames, listening, open_desk, scripted
from tests.host.websocket.talking import Talker, talking

RARELY: Final = HostLimits(heartbeat_seconds=3600.0, drain_seconds=0.5)
STREAMS: Final = 5


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[Desk, KeyFile]]:
    (folder / "folder").mkdir()
    file = KeyFile(folder / "folder" / "keys")
    for row, _ in MADE.values():
        file.add(row)
    async with open_desk(scripted("one"), keys=ApiKeys(file.path), limits=RARELY) as desk:
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
        if self.looks in {3, 4}:  # the first one is of the request, the second one of its stream
            problem = "can't start new thread"
            raise RuntimeError(problem)
        await super().refresh()


async def test_a_look_that_fails_ends_no_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = KeyFile(tmp_path / "keys")
    row, key = new_key("acme", "ann", ["talk"])
    file.add(row)
    keys = Failing(file.path)
    headers = [("authorization", f"Bearer {key}")]
    began = await keys.identify(headers)
    watch = KeyWatch(keys, RARELY)
    refused: list[AgentrailError] = []

    async def stream() -> None:
        refused.append(await watch.refusal(began, headers))

    with trio.fail_after(60):  # of the real clock: another one would jump while a thread reads the file
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            async with trio.open_nursery() as streams:
                streams.start_soon(stream)
                while not caplog.records:  # noqa: ASYNC110 - the log tells nobody
                    await trio.sleep(0.01)
                file.withdraw(row.id)
            nursery.cancel_scope.cancel()
    assert [str(error).startswith(NO_SUCH_KEY) for error in refused] == [True]
    assert [record.getMessage() for record in caplog.records] == [
        "the look at the keys of open streams failed; it is made again"
    ]


def test_two_looks_at_the_file_fit_in_a_second() -> None:
    """A key may be withdrawn just after a look, and the next one may come when the file was read a moment ago."""
    assert 2 * FRESH < 0.9


async def test_a_key_that_goes_before_its_stream_is_watched_ends_it_too(tmp_path: Path) -> None:
    """The request was taken, the file changed, and another request has had it read before the stream began."""
    file = KeyFile(tmp_path / "keys")
    row, key = new_key("acme", "ann", ["talk"])
    file.add(row)
    keys = ApiKeys(file.path)
    headers = [("authorization", f"Bearer {key}")]
    began = await keys.identify(headers)
    file.withdraw(row.id)
    keys.read_anew()
    await keys.refresh()
    with trio.fail_after(60):
        refused = await KeyWatch(keys, RARELY).refusal(began, headers)
    assert str(refused).startswith(NO_SUCH_KEY)


async def test_without_streams_nobody_looks_at_the_file(tmp_path: Path, autojump_clock: object) -> None:  # noqa: ARG001
    file = KeyFile(tmp_path / "keys")
    row, _ = new_key("acme", "ann", ["talk"])
    file.add(row)
    keys = ApiKeys(file.path)
    told: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(KeyWatch(keys, RARELY).run)
        with keys.telling(told.append):
            file.withdraw(row.id)
            await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert told == []
