"""One exchange with another host can be ended at any moment: nothing else tells of a host that is stopped."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from agentrail.host import Cluster
from agentrail.host.cluster.holder_connection import (
    CONNECT_SECONDS,
    SILENT_SECONDS,
    HolderConnection,
    HolderGoneError,
    HolderUnfitError,
    connect,
)
from agentrail.remote.transport.host_address import HostAddress


@pytest.mark.parametrize("is_sent", [False, True])
async def test_what_is_cut_ends_while_it_sends_and_while_it_reads(is_sent: bool) -> None:
    ours, theirs = lockstep_stream_pair()
    connection = HolderConnection(ours, "http://10.0.0.5:1", HostAddress("10.0.0.5", 1))
    ends: list[HolderGoneError] = []

    async def ask() -> None:
        with pytest.raises(HolderGoneError) as error:
            await connection.ask("10.0.0.5:1", "POST", "/v1/chat", (), b"." * 1000)
        ends.append(error.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        if is_sent:
            await theirs.receive_some(100_000)
        await wait_all_tasks_blocked()
        connection.cut()
    assert len(ends) == 1


async def test_what_takes_no_request_is_not_waited_for(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    ours, _theirs = lockstep_stream_pair()
    connection, began = HolderConnection(ours, "http://10.0.0.5:1", HostAddress("10.0.0.5", 1)), trio.current_time()
    with pytest.raises(HolderUnfitError):
        await connection.ask("10.0.0.5:1", "POST", "/v1/chat", (), b"." * 1000)
    assert trio.current_time() - began == SILENT_SECONDS


class Lost(Cluster):
    """A cluster whose hosts are looked for without end."""

    def __init__(self) -> None:
        super().__init__("http://10.0.0.4:1", "k" * 32)
        self.lost: list[str] = []

    async def find(self, address: str) -> HostAddress | None:
        await trio.sleep_forever()
        raise AssertionError(address)

    def lose(self, address: str) -> None:
        self.lost.append(address)


async def test_a_host_that_is_not_found_in_time_is_lost(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    cluster, began = Lost(), trio.current_time()
    with trio.fail_after(2 * CONNECT_SECONDS), pytest.raises(HolderGoneError):
        await connect(cluster, "http://10.0.0.5:1")
    assert (trio.current_time() - began, cluster.lost) == (CONNECT_SECONDS, ["http://10.0.0.5:1"])
