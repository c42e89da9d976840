"""Nobody reads, writes or hears what is another's, and nobody can tell whether it is there."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import httpx
import pytest
import trio

from agentrail.api.operation_table import ROUTES
from agentrail.host import ApiKeys, Host, Profile
from tests.host.hosted import CERTIFICATES
from tests.host.model.agent import agent
from tests.host.model.in_process import Answer, DrawnRequest, Hear
from tests.host.model.people import LINES
from tests.host.model.requests import BODIES, NOTHING_FOR
from tests.host.model.tenants import ForeignError, Tenants, limits, played
from tests.profiles import CAMPAIGN

REQUESTS: Final = 1_000_000 if CAMPAIGN else 2_000
AT_MOST: Final = REQUESTS + 26_000
"""After so many, each call that can be carried out must have been, however seldom it is drawn."""
OVER_SOCKETS: Final = 2_500 if CAMPAIGN else 1
"""Worlds that are reached over sockets: a million requests in the campaign."""
AT_ONCE: Final = 50
"""Worlds that are played beside each other: in some, a prompt waits until its session is no longer suspended."""
TELL: Final = 50
"""Worlds after which the campaign, which takes an hour, says how far it is."""
IN_EACH: Final = 400
"""Requests to each of them: with more, there would be more sessions than a page of a list has."""
TIMED: Final = frozenset({"connection", "date"})
"""Headers that depend on the time: a connection is closed if a body that nobody reads is not there yet."""
A_WORLD: Final = 200
"""Requests to the sessions of one journal."""


def test_each_route_has_its_requests() -> None:
    assert set(BODIES) == {route.call.name for route in ROUTES}


@pytest.mark.long
def test_nobody_sees_or_changes_what_is_anothers() -> None:
    done, outcomes = Counter[str](), Counter[str]()
    call_names, request_count = set(BODIES) - NOTHING_FOR, 0
    while request_count < REQUESTS or (set(done) < call_names and request_count < AT_MOST):
        for world in played(request_count // A_WORLD, A_WORLD):
            done += world.done
            outcomes += world.expected
        request_count += A_WORLD
    assert set(done) == call_names
    assert set(outcomes) == {"may", "missing", "no key", "no scope"}


@pytest.mark.long
async def test_nobody_sees_or_changes_what_is_anothers_over_sockets(capsys: pytest.CaptureFixture[str]) -> None:
    room = trio.CapacityLimiter(AT_ONCE)
    with capsys.disabled():
        async with trio.open_nursery() as nursery:
            for seed in range(1, OVER_SOCKETS + 1):
                await room.acquire_on_behalf_of(seed)
                nursery.start_soon(play_one, seed, room)


async def play_one(seed: int, room: trio.CapacityLimiter) -> None:
    """Play a world over sockets, and make *room* for the next; now and then say how far the campaign is."""
    await play_over_sockets(seed)
    room.release_on_behalf_of(seed)
    if seed % TELL == 0:
        print(f"world {seed:,} of {OVER_SOCKETS:,}: nothing found", flush=True)  # noqa: T201


async def play_over_sockets(seed: int) -> None:
    """Play one world, which is reached over sockets."""
    host = Host([Profile("desk", agent())], authenticator=ApiKeys(lines=LINES), limits=limits())
    async with (
        host.serving() as serving,
        httpx.AsyncClient(base_url=serving.url, timeout=60, trust_env=False, verify=CERTIFICATES) as client,
    ):

        async def ask(request: DrawnRequest, hear: Hear) -> Answer:
            head = [(name.encode(), value.encode()) for name, value in request.headers]
            async with client.stream(request.method, request.target, headers=head, content=request.body) as response:
                headers = tuple((name, value) for name, value in response.headers.items() if name not in TIMED)
                if response.headers.get("content-type") != "text/event-stream":
                    return Answer(response.status_code, headers, await response.aread())
                async for piece in response.aiter_bytes():
                    hear(piece)
                return Answer(response.status_code, headers, b"")

        async with trio.open_nursery() as nursery:
            world = Tenants(Random(seed), ask, serving.supervisor, nursery, in_virtual_time=False)
            try:
                await world.play(IN_EACH)
            except ForeignError as error:
                error.add_note(f"seed {seed}")
                raise
            nursery.cancel_scope.cancel()
    assert set(world.expected) == {"may", "missing", "no key", "no scope"}
