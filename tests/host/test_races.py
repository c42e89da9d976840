"""A session is deleted while it is used: each request has an answer of its call, and nothing of the session stays."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Final

import pytest
import trio

from agentrail.api.operation_table import ROUTES, HostRoute, errors_of
from agentrail.api.problems import ROWS
from agentrail.host import ApiKeys, Host, Profile
from agentrail.host.host_server import Opened
from agentrail.journals import MemoryJournal
from agentrail.testing.simulator.virtual import ClockWatch, run
from tests.host.model.agent import agent
from tests.host.model.expecting import expect
from tests.host.model.in_process import Answer, DrawnRequest, ask, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.requests import Making, build_request
from tests.host.model.tenants import limits
from tests.profiles import CAMPAIGN

OWNER: Final = PEOPLE[0]
ADMIN: Final = PEOPLE[3]
NAME: Final = "s1"
SAID: Final = f"{OWNER.user}.{NAME}"
WORDS: Final = ("hi", "slow", "child", "pay", "ask")
SETTLED: Final = 60.0
BESIDE: Final = tuple(
    [route for route in ROUTES if route.about_session or route.call.name in {"chat", "stream", "ag_ui_run"}]
)
DELETE: Final = next(route for route in ROUTES if route.call.name == "delete_session")


def statuses(route: HostRoute) -> set[int]:
    """Return the statuses that the OpenAPI document has for a route."""
    errors = errors_of(route.call)
    return {route.call.status, *({202} if route.call.held else ()), *(ROWS[error].status for error in errors)}


def raced(seed: int) -> list[tuple[str, int]]:
    """Play a race from *seed*; return the calls that were made, and their statuses."""
    draw, log = Random(seed), list[tuple[str, int]]()

    async def race(_: object) -> None:
        host = Host([Profile("desk", agent())], journal=MemoryJournal(), limits=limits())
        async with opened(host, ApiKeys(lines=LINES)) as opened_host:
            await _played(opened_host, draw, log)

    run(seed, ClockWatch(), race)
    return log


async def _played(opened_host: Opened, draw: Random, log: list[tuple[str, int]]) -> None:
    making = Making(draw, ADMIN, SAID, "mark1-", (), WORDS)
    opening = json.dumps({"message": f"hi {draw.choice(WORDS)}", "session": NAME}).encode()
    headers = (("authorization", f"Bearer {OWNER.key}"), ("content-type", "application/json"))
    with trio.move_on_after(draw.choice((0.0, 0.1, SETTLED))):
        await ask(opened_host.application, DrawnRequest("POST", "/v1/chat", headers, opening), lambda _: None)
    routes = [DELETE, *draw.choices(BESIDE, k=draw.randint(1, 6))]

    async def sent(route: HostRoute) -> None:
        for _ in range(draw.randrange(30)):
            await trio.lowlevel.checkpoint()
        request = build_request(route, making, ADMIN.key)
        with trio.move_on_after(SETTLED):  # streams of events have no end
            answer = await ask(opened_host.application, request, lambda _: None)
            log.append((route.call.name, answer.status))
            expect(f"{route.call.name}: {answer.status}", answer.status in statuses(route), expected=True)

    async with trio.open_nursery() as nursery:
        for route in routes:
            nursery.start_soon(sent, route)
    await trio.sleep(SETTLED)
    await _settled(opened_host, headers)


async def _settled(opened_host: Opened, headers: tuple[tuple[str, str], ...]) -> None:
    """Check that the session is there as a whole, or not at all, and that it can be opened and erased again."""
    path = f"/v1/sessions/{SAID}"
    admin = (("authorization", f"Bearer {ADMIN.key}"), ("content-type", "application/json"))

    async def to(method: str, path: str, body: bytes = b"") -> Answer:
        return await ask(opened_host.application, DrawnRequest(method, path, admin, body), lambda _: None)

    status = (await to("GET", path)).status
    here = f"h.{OWNER.tenant}.{SAID}" in {handle.id for handle in opened_host.supervisor.sessions()}
    expect("it is there or not", (status in {200, 404}, status == 404 and here), (True, False))
    expect("it is erased", (await to("DELETE", path)).status, status)
    body = json.dumps({"message": "hi", "session": NAME}).encode()
    again = await ask(opened_host.application, DrawnRequest("POST", "/v1/chat", headers, body), lambda _: None)
    items = json.loads((await to("GET", f"{path}/messages")).content)["items"]
    expect("a new one of its name is new", (again.status, len(items)), (200, 2))
    erased = [(await to(method, path)).status for method in ("DELETE", "GET")]
    expect("it is erased again", erased, [200, 404])
    if not opened_host.supervisor.sessions():
        expect("no frame of it is kept", opened_host.frames.bytes, 0)


pytestmark = pytest.mark.long

RACES: Final = 5_000 if CAMPAIGN else 250


@pytest.mark.campaign
def test_a_session_is_deleted_beside_all_other_requests() -> None:
    outcomes = Counter[tuple[str, int]]()
    for seed in range(RACES):
        outcomes.update(raced(seed))
    assert {call for call, _ in outcomes} == {route.call.name for route in BESIDE}
    assert {outcomes["delete_session", status] > RACES / 4 for status in (200, 404)} == {True}
