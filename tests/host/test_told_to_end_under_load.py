"""A process that gets SIGTERM under load: each client that has connected before is answered, whenever it asks."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.host.commanded import SERVE, commanded
from tests.host.http11.served import everything, request, statuses

pytestmark = pytest.mark.long

CLIENTS: Final = 60
"""Fewer than `HostLimits.connections_per_address`."""
LATEST: Final = 0.5
"""Seconds after the signal in which the last client asks: less than `SILENT`."""
LATE: Final = -1
"""What counts in the place of a status for a client that has asked later, and has no answer."""


async def test_each_client_that_has_connected_is_answered(tmp_path: Path) -> None:
    counts = Counter[int]()
    with trio.fail_after(90):
        async with commanded([*SERVE, "--port", "0"], tmp_path) as process:
            port = int(process.url.rpartition(":")[2])
            request_bytes = request(
                "GET /v1/sessions HTTP/1.1", f"Authorization: Bearer {process.token}", host="127.0.0.1"
            )

            async def ask(client: trio.SocketStream, after: float) -> None:
                async with client:
                    await trio.sleep(after)
                    await client.send_all(request_bytes)
                    is_late = trio.current_time() - told_at > LATEST  # this process had no CPU for so long
                    counts.update(statuses(await everything(client)) or [LATE if is_late else 0])

            async with trio.open_nursery() as nursery:
                clients = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(CLIENTS)]
                for number, client in enumerate(clients):
                    nursery.start_soon(ask, client, max(number - CLIENTS / 3, 0) * LATEST / CLIENTS)
                told_at = trio.current_time()
                process.process.send_signal(signal.SIGTERM)
            assert await process.process.wait() == 0
    assert (counts.total(), counts.keys() <= {200, 503, LATE}) == (CLIENTS, True), counts
