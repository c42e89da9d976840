"""A key that is withdrawn ends its open streams, WebSockets and long requests within two seconds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.errors import AgentrailError, NotAuthenticated
from agentrail.host import ApiKeys, HostLimits, Identity
from agentrail.host.authentication.api_keys import NO_SUCH_KEY, KeyFile, new_key
from agentrail.host.authentication.authenticators import guarded
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.authentication.key_watch import KeyWatch
from agentrail.testing import stall
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
    watch = KeyWatch(keys, HostLimits())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        error = await watch.refusal(began, headers)
        nursery.cancel_scope.cancel()
    return error


async def test_by_default_a_stream_ends_within_a_second_of_its_key(
    tmp_path: Path,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(new_key("acme", "bob", ["talk"])[0])
    refused = await withdrawn(file, ApiKeys(file.path))
    assert (str(refused).startswith(NO_SUCH_KEY), trio.current_time()) == (True, 1)


async def test_a_look_that_fails_ends_no_stream_and_is_made_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(new_key("acme", "bob", ["talk"])[0])
    refused = await withdrawn(file, Failing(file.path))
    assert (str(refused).startswith(NO_SUCH_KEY), trio.current_time()) == (True, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "the look at the keys of open streams failed; it is made again"
    ]


@pytest.mark.long
async def test_a_request_that_waits_for_a_turn_ends_with_its_key(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    for row, _ in MADE.values():
        file.add(row)
    async with open_desk(scripted(stall()), keys=ApiKeys(file.path), limits=HostLimits(drain_seconds=0.5)) as desk:
        answers: list[int] = []

        async def ask(user: str) -> None:
            answer = await desk.clients[user].post("/v1/chat", json={"session": "long", "message": "go"})
            answers.append(answer.status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "ann")
            await trio.sleep(0.3)
            file.withdraw(MADE["ann"][0].id)
            with trio.fail_after(10):
                while not answers:  # noqa: ASYNC110 - a client waits for it
                    await trio.sleep(0.05)
        assert answers == [401]


class Counting:
    """Authenticator of a program that counts how often it is asked."""

    def __init__(self, seconds: float = 0) -> None:
        self.asked = 0
        self.under_way = self.most = 0
        self.seconds = seconds
        self.is_withdrawn = False

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await trio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        if self.is_withdrawn:
            raise NotAuthenticated(NO_SUCH_KEY)
        return Identity("acme", dict(headers)["authorization"], frozenset({"talk"}), "1")


@pytest.mark.parametrize(("seconds", "times", "most"), [(0, 100, 1), (3, 6, 1)])
async def test_an_authenticator_is_asked_once_for_all_streams_of_a_key(
    seconds: float,
    times: int,
    most: int,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    service, errors = Counting(seconds), list[tuple[str, float]]()
    watch = KeyWatch(guarded(service), HostLimits())
    who = Identity("acme", "ann", frozenset({"talk"}), "1")

    async def stream(number: int) -> None:
        headers = [("authorization", "ann"), ("content-length", str(number)), ("last-event-id", str(number))]
        error = await watch.refusal(who, headers)
        errors.append((str(error), trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        for number in range(50):
            nursery.start_soon(stream, number)
        await trio.sleep(100.5)
        assert (service.asked, service.most) == (times, most)
        service.is_withdrawn = True
        with trio.fail_after(2 if not seconds else 20):
            while len(errors) < 50:  # noqa: ASYNC110 - many streams end
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert watch._watches == {}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # nothing is left


async def test_many_keys_are_asked_for_a_hundred_times_a_second_at_most(autojump_clock: object) -> None:  # noqa: ARG001
    service = Counting()
    watch = KeyWatch(guarded(service), HostLimits())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        for number in range(300):
            who = Identity("acme", str(number), frozenset({"talk"}), "1")
            nursery.start_soon(watch.refusal, who, [("authorization", str(number))])
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert service.asked <= 100 * 10


@pytest.mark.long
async def test_a_file_that_does_not_change_has_no_key_looked_up(tmp_path: Path) -> None:
    looked_up: list[str] = []

    class Looked(ApiKeys):
        async def check_key(self, who: Identity) -> None:
            looked_up.append(who.user)
            await super().check_key(who)

    file, errors = KeyFile(tmp_path / "keys"), list[tuple[str, float]]()
    rows = [new_key("acme", str(number), ["talk"])[0] for number in range(20)]
    for row in rows:
        file.add(row)
    watch = KeyWatch(Looked(file.path), LIMITS)

    async def stream(number: int) -> None:
        who = ForwardedIdentity("acme", str(number), frozenset({"talk"}), rows[number].id)
        await watch.refusal(who, [])
        errors.append((str(number), trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        for number in range(20):
            nursery.start_soon(stream, number)
        await trio.sleep(2)
        assert len(looked_up) == 20
        file.withdraw(rows[7].id)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert [name for name, _ in errors] == ["7"]
    assert len(looked_up) == 40
