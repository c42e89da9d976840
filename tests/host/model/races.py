"""Requests to one session beside its `DELETE`, on a seeded scheduler; and what has to hold after them."""

from __future__ import annotations

import json
from random import Random
from typing import Final

import trio

from agentrail.api.operation_table import ROUTES, HostRoute, errors_of
from agentrail.api.problems import ROWS
from agentrail.host import ApiKeys, Host, Profile
from agentrail.host.host_server import Opened
from agentrail.journals import MemoryJournal
from agentrail.testing.simulator.virtual import ClockWatch, run
from tests.host.model.agent import agent
from tests.host.model.expecting import expect
from tests.host.model.in_process import Answer, Asked, ask, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.requests import Making, made
from tests.host.model.tenants import limits

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
    draw, told = Random(seed), list[tuple[str, int]]()

    async def race(_: object) -> None:
        host = Host([Profile("desk", agent())], journal=MemoryJournal(), limits=limits())
        async with opened(host, ApiKeys(lines=LINES)) as found:
            await _played(found, draw, told)

    run(seed, ClockWatch(), race)
    return told


async def _played(found: Opened, draw: Random, told: list[tuple[str, int]]) -> None:
    making = Making(draw, ADMIN, SAID, "mark1-", (), WORDS)
    opening = json.dumps({"message": f"hi {draw.choice(WORDS)}", "session": NAME}).encode()
    headers = (("authorization", f"Bearer {OWNER.key}"), ("content-type", "application/json"))
    with trio.move_on_after(draw.choice((0.0, 0.1, SETTLED))):
        await ask(found.application, Asked("POST", "/v1/chat", headers, opening), lambda _: None)
    routes = [DELETE, *draw.choices(BESIDE, k=draw.randint(1, 6))]

    async def sent(route: HostRoute) -> None:
        for _ in range(draw.randrange(30)):
            await trio.lowlevel.checkpoint()
        asked = made(route, making, ADMIN.key)
        with trio.move_on_after(SETTLED):  # streams of events have no end
            answer = await ask(found.application, asked, lambda _: None)
            told.append((route.call.name, answer.status))
            expect(f"{route.call.name}: {answer.status}", answer.status in statuses(route), wanted=True)

    async with trio.open_nursery() as nursery:
        for route in routes:
            nursery.start_soon(sent, route)
    await trio.sleep(SETTLED)
    await _settled(found, headers)


async def _settled(found: Opened, headers: tuple[tuple[str, str], ...]) -> None:
    """Check that the session is there as a whole, or not at all, and that it can be opened and erased again."""
    path = f"/v1/sessions/{SAID}"
    admin = (("authorization", f"Bearer {ADMIN.key}"), ("content-type", "application/json"))

    async def to(method: str, path: str, body: bytes = b"") -> Answer:
        return await ask(found.application, Asked(method, path, admin, body), lambda _: None)

    shown = (await to("GET", path)).status
    here = f"h.{OWNER.tenant}.{SAID}" in {handle.id for handle in found.supervisor.sessions()}
    expect("it is there or not", (shown in {200, 404}, shown == 404 and here), (True, False))
    expect("it is erased", (await to("DELETE", path)).status, shown)
    body = json.dumps({"message": "hi", "session": NAME}).encode()
    again = await ask(found.application, Asked("POST", "/v1/chat", headers, body), lambda _: None)
    said = json.loads((await to("GET", f"{path}/messages")).content)["items"]
    expect("a new one of its name is new", (again.status, len(said)), (200, 2))
    erased = [(await to(method, path)).status for method in ("DELETE", "GET")]
    expect("it is erased again", erased, [200, 404])
    if not found.supervisor.sessions():
        expect("no frame of it is kept", found.frames.bytes, 0)
