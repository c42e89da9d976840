"""A model of who owns what, played against a host: people ask for any session by any route, and are cut off anywhere.

After each request the model says what may have come of it. Whatever a person is shown is looked through for marks,
which tell who has written it and to whose session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final

import trio
from attrs import define, field, frozen

from agentrail import Supervisor
from agentrail.api.operation_table import ROUTES, HostCall, HostRoute
from agentrail.api.public_ids import visible
from agentrail.codec.values import write
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import MemoryJournal
from agentrail.testing.simulator.virtual import ClockWatch, run
from tests.host.model.agent import MARK, agent, mark
from tests.host.model.in_process import Answer, DrawnRequest, Hear, ask, cut_after, first_of, opened
from tests.host.model.people import (
    LINES,
    PEOPLE,
    READ,
    Outcome,
    Person,
    SessionAddress,
    address_of,
    meant_address,
    outcome,
    wrong_keys,
)
from tests.host.model.requests import GONE, NAMES, Making, build_request

LISTED: Final[dict[str, Callable[[str, str], bool]]] = {
    "": lambda user, owner: user == owner,
    "owner=*": lambda _, __: True,
    "owner=ann": lambda _, owner: owner == "ann",
}
"""Of a list with this query, whether it has the sessions of an owner."""
PROBLEM: Final = "urn:agentrail:problem:"
STATUS: Final = {"no key": 401, "no scope": 403, "missing": 404}
TALKING: Final = frozenset({"chat", "stream", "ag_ui_run"})
"""Calls that name their session in the body."""
OPENING: Final = TALKING | {"open_session", "fork"}
"""Calls that may make a session."""
DECIDING: Final = frozenset({"approve", "reject", "respond"})
"""Calls about what waits in a session."""
DRAWN: Final = tuple(
    route for route in ROUTES for _ in range(4 if route.call.name in OPENING | DECIDING | {"prompt"} else 1)
)
"""All routes, those by which sessions come, talk and are decided about more often."""
ANYWHERE: Final = frozenset({"approvals", "tree", "rows", "trouble", "figures", "metrics"})
"""Calls that show what is of the whole tenant."""
INTERNAL: Final = re.compile(rb"(?<![\w.])h\.(?:acme|acm|acme_2eann|_c3_a9vil|h)\.[\w-]+\.")
"""An id of a session as it is in the journal, which no client sees."""
LONGEST: Final = 30.0
"""Seconds after which a request is given up: it waits for a decision."""
SETTLED: Final = 3.0
"""Seconds in which all turns come to their end, or wait for a person."""
MOST_STREAMS: Final = 6

Ask = Callable[[DrawnRequest, Hear], Awaitable[Answer]]


class ForeignError(AssertionError):
    """Somebody has read, written or heard something that is not theirs, or could tell that it is there."""


@contextmanager
def rule(name: str) -> Generator[None]:
    """Name the rule that is broken if what is inside fails."""
    try:
        yield
    except AssertionError as error:
        raise ForeignError(name, *error.args) from error


@frozen
class Mark:
    """Who has written a text, by which call, and to which session if that is known."""

    person: Person
    call: HostCall


@define
class Tenants:
    """The people, what they have done, and the sessions that there are."""

    draw: Random
    ask: Ask
    supervisor: Supervisor
    nursery: trio.Nursery
    in_virtual_time: bool = True
    """Whether turns may take long, and requests are cut off and made beside others."""
    marks: list[Mark] = field(factory=list)
    session_ids: dict[str, None] = field(factory=dict)
    streams: list[trio.CancelScope] = field(factory=list)
    done: Counter[str] = field(factory=Counter)
    """How often each call was carried out."""
    expected: Counter[Outcome] = field(factory=Counter)
    """How often each outcome was expected."""

    async def play(self, count: int) -> None:
        """Make *count* requests."""
        for _ in range(count):
            what = self.draw.random()
            if what < 0.05 and self.in_virtual_time:
                async with trio.open_nursery() as nursery:
                    for _ in range(self.draw.randint(2, 3)):
                        nursery.start_soon(self.request_once, self.draw.random() < 0.3, True)
                await self.settle()
                await self.check_sessions(None, set())
            else:
                await self.request_once(cut=what < 0.2 and self.in_virtual_time, beside=False)
        await self.settle()
        await self.check_sessions(None, set())
        with rule("foreign write"):
            self.check_writes()
        for scope in self.streams:
            scope.cancel()

    async def settle(self) -> None:
        """Let turns come to their end."""
        if self.in_virtual_time:
            await trio.sleep(SETTLED)

    @property
    def words(self) -> tuple[str, ...]:
        return ("", "", "", "slow", "pay", "ask", "child") if self.in_virtual_time else ("", "child")

    # One request

    async def request_once(self, cut: bool, beside: bool) -> None:
        """Make a request, and check what came of it. *cut*: it is cut off; *beside*: others are made meanwhile."""
        route = self.draw.choice(DRAWN)
        person, key = self.who()
        name_text = self.say(person, route.call) if route.about_session or self.draw.random() < 0.8 else ""
        address = self.address(route, person, name_text)
        owner = self.draw.choice(PEOPLE) if person is None else person
        make = Making(self.draw, owner, name_text, self.mark(owner, route.call), self.refs(address), self.words)
        request = build_request(route, make, key)
        is_settled = not beside and self.draw.random() < 0.4
        if is_settled:
            await self.settle()
        # A sub-agent may have come and ended since the last look at the journal; to others it is missing all the same.
        is_there = address is not None and (address.is_child or address.internal in self.known())
        expected = outcome(person, route.call, address, is_there=is_there)
        if expected == "missing" and self.opens(route, owner, address):
            expected = "may"
        heads = self.written() if is_settled else None
        answer = await self.answer_of(route, owner, request, cut=cut)
        if answer is not None:
            self.done[route.call.name] += answer.status < 400 or b"unknown-route" in answer.content
        if answer is not None and not beside:
            self.check(route, owner, request, expected, answer, heads)
            if expected == "missing" and GONE not in request.target:
                await self.check_twin(route, owner, make, key, answer)
        if not beside and (cut or route.call.name in OPENING or route.call.name == "delete_session"):
            if answer is None:
                await self.settle()
            await self.check_sessions(route.call, self.reachable(owner, address) if expected == "may" else set())
        elif not beside and answer is None:
            await self.settle()
        self.expected[expected] += 1

    async def answer_of(self, route: HostRoute, person: Person, request: DrawnRequest, *, cut: bool) -> Answer | None:
        """Make a request; return its answer, or `None` if it was cut off or goes on."""
        hear = self.hearing(route.call, person, request)
        if route.call.name == "events":
            return await self.listened(request, hear)
        with trio.move_on_after(LONGEST) as limit, cut_after(limit, self.draw.randrange(25) if cut else None):
            answer = await self.ask(request, hear)
            hear(answer.content)
            return answer
        return None

    async def listened(self, request: DrawnRequest, hear: Hear) -> Answer | None:
        """Open a stream of events, which goes on beside what follows; return an answer that is none."""
        heard, scope, over = list[Answer](), trio.CancelScope(), trio.Event()

        def first(piece: bytes) -> None:
            over.set()
            self.done["events"] += 1
            hear(piece)

        async def listen() -> None:
            try:
                with scope:
                    heard.append(await self.ask(request, first))
            finally:
                over.set()

        self.nursery.start_soon(listen)
        await over.wait()
        if heard:
            return heard[0]
        self.streams.append(scope)
        if len(self.streams) > MOST_STREAMS:
            self.streams.pop(0).cancel()
        return None

    # What is drawn

    def who(self) -> tuple[Person | None, str]:
        """Draw who makes a request, and the key that it bears: a wrong one now and then."""
        person = self.draw.choice(PEOPLE)
        if self.draw.random() < 0.08:
            return None, self.draw.choice(wrong_keys(person, self.draw.choice(PEOPLE)))
        return person, person.key

    def say(self, person: Person | None, call: HostCall) -> str:
        """Draw the id of a session, as *person* may say it: of their tenant, of those that are there, or of any."""
        draw, ids = self.draw, self.known()
        waiting = [session.id for session in self.supervisor.sessions() if session.status().held]
        if call.name in DECIDING and waiting:
            ids = waiting
        if person is not None and draw.random() < 0.5:
            ids = [id_ for id_ in ids if address_of(id_).tenant == person.tenant]
        if ids and draw.random() < 0.75:
            address = address_of(draw.choice(ids))
        else:
            person = draw.choice(PEOPLE)
            address = SessionAddress(person.tenant, person.user, draw.choice(NAMES))
        kind = draw.random()
        if kind < 0.7:
            return address.visible
        internal = address.internal
        return draw.choice(
            (
                address.name,
                address.name,
                internal,
                internal[2:],
                f"{address.visible}.",
                address.visible.upper(),
                f"*.{address.name}",
            )
        )

    def address(self, route: HostRoute, person: Person | None, name_text: str) -> SessionAddress | None:
        """Return the session that a request is about; `None`: it is about none, or nobody makes it."""
        if person is None or not name_text or not (route.about_session or route.call.name in TALKING):
            return None
        return meant_address(person, name_text) or SessionAddress(person.tenant, "s1", f"{GONE}-{name_text}")

    def opens(self, route: HostRoute, person: Person, address: SessionAddress | None) -> bool:
        """Whether a request for a session that is not there opens it: that of a person who talks to their own."""
        is_own = address is not None and (address.tenant, address.user) == (person.tenant, person.user)
        return is_own and route.call.name in TALKING

    def mark(self, person: Person, call: HostCall) -> str:
        self.marks.append(Mark(person, call))
        return mark(len(self.marks) - 1)

    def refs(self, address: SessionAddress | None) -> tuple[str, ...]:
        """Return the ids of what waits for a decision in a session; of all sessions now and then, or if it has none."""
        held_by_session = {session.id: session.status().held for session in self.supervisor.sessions()}
        own_refs = () if address is None or self.draw.random() < 0.2 else held_by_session.get(address.internal, ())
        return tuple(
            visible(held.id)
            for held in own_refs or [held_call for some in held_by_session.values() for held_call in some]
        )

    # What there is

    def known(self) -> list[str]:
        """Return the ids of all sessions that there are, as the journal has them; in the order in which they came."""
        return list(dict.fromkeys([*self.session_ids, *[session.id for session in self.supervisor.sessions()]]))

    def written(self) -> dict[str, int] | None:
        """Return how much is written of each session; `None` while turns are open, which write by themselves."""
        sessions = self.supervisor.sessions()
        if any(session.status().phase not in {"idle", "ended"} for session in sessions):
            return None
        return {session.id: session.inspect().last_seq for session in sessions}

    def reachable(self, person: Person, address: SessionAddress | None) -> set[tuple[str, str]]:
        """Return the owners whose sessions may come or go by a request."""
        return {(person.tenant, person.user), *([] if address is None else [(address.tenant, address.user)])}

    async def check_sessions(self, call: HostCall | None, owners: set[tuple[str, str]]) -> None:
        """Look which sessions there are: one has come or gone only by a *call*, and is of one of the *owners*."""
        stored = await self.supervisor.stored(limit=1000)
        now = {session.session_id for session in stored}
        with rule("foreign session"):
            for id_ in now ^ self.session_ids.keys():
                address = address_of(id_)
                assert address.is_child or call is None or (address.tenant, address.user) in owners, (id_, call, owners)
            for session in stored:
                address = address_of(session.session_id)
                if not address.is_child:
                    assert (session.about.tenant, session.about.owner) == (address.tenant, address.user)
        self.session_ids = dict.fromkeys([*[id_ for id_ in self.known() if id_ in now], *sorted(now)])

    # What is checked

    def check(
        self,
        route: HostRoute,
        owner: Person,
        request: DrawnRequest,
        expected: Outcome,
        answer: Answer,
        heads: dict[str, int] | None,
    ) -> None:
        """Check an answer, and that nothing was written *heads* by who may not."""
        with rule("answer"):
            assert answer.status != 500, (request, answer)
            if expected == "may":
                kind = json.loads(answer.content).get("type") if answer.status in {401, 403, 404} else ""
                assert kind not in {f"{PROBLEM}{name}" for name in ("not-authenticated", "scope-missing")} or (
                    route.call.name == "list_sessions" and "owner=" in request.target
                ), (request, answer)
                if route.call.name == "tree" and answer.status == 200 and heads is not None:
                    self.check_tree(owner, answer)
                if route.call.name == "list_sessions" and answer.status == 200 and heads is not None:
                    self.check_list(request, owner, answer)
                return
            assert answer.status == STATUS[expected], (expected, request, answer)
        after = self.written()
        if heads is not None and after is not None:
            with rule("foreign write"):
                assert {id_: after.get(id_, seq) for id_, seq in heads.items()} == heads, (request, heads, after)

    def check_list(self, request: DrawnRequest, person: Person, answer: Answer) -> None:
        """Check that a whole list has the sessions that it is about, and no other."""
        is_listed = LISTED.get(request.target.partition("?")[2])
        if is_listed is None:
            return
        addresses = [address_of(id_) for id_ in self.known()]
        own_addresses = [
            address for address in addresses if address.tenant == person.tenant and is_listed(person.user, address.user)
        ]
        listed = {name["session"] for name in json.loads(answer.content)["items"]}
        listed = {id_ for id_ in listed if id_.count(".") == 1}  # sub-agents have one more, and may be there already
        assert listed == {name.visible for name in own_addresses if not name.is_child}, (request, listed, own_addresses)

    def check_tree(self, person: Person, answer: Answer) -> None:
        """Check that the tree has the sessions of one tenant that run here, and no other."""
        addresses = [address_of(session.id) for session in self.supervisor.sessions()]
        expected = sorted(name.visible for name in addresses if name.tenant == person.tenant and not name.is_child)
        assert sorted(_sessions_in(json.loads(answer.content))) == expected, (person, answer)

    async def check_twin(self, route: HostRoute, person: Person, make: Making, key: str, answer: Answer) -> None:
        """Ask for a session that is not there, in the same words; the answers must be equal."""
        owner, dot, _ = make.session_text.partition(".")
        if not dot or (owner in READ and READ[owner] == person.user):
            return
        twin = Making(Random(1), person, f"{owner}.{GONE}", make.mark, make.refs, self.words)
        other = await self.answer_of(route, person, build_request(route, twin, key), cut=False)
        same = build_request(route, Making(Random(1), person, make.session_text, make.mark, make.refs, self.words), key)
        again = await self.answer_of(route, person, same, cut=False)
        with rule("equal answers"):
            assert again is not None
            assert other is not None
            if b"unknown-route" not in again.content:
                assert _without_id(other) == _without_id(again), (other, again)
                assert again.status == answer.status

    def hearing(self, call: HostCall, person: Person, request: DrawnRequest) -> Hear:
        """Return the function that looks at what *person* is shown."""
        echoed = INTERNAL.search(request.target.encode() + request.body) is not None

        def hear(piece: bytes) -> None:
            with rule("id of the journal"):
                assert echoed or not INTERNAL.search(piece), (request, piece)
            self.see(call, person, piece)

        return hear

    def see(self, call: HostCall, person: Person, content: bytes) -> None:
        """Check that *person* may see what they are shown: each mark in it was written to a session of theirs."""
        with rule("foreign read"):
            for answer in MARK.finditer(content):
                by = self.marks[int(answer[1])]
                assert self.may_see(call, person, by), (person, call.name, by, content)

    def may_see(self, call: HostCall, person: Person, by: Mark) -> bool:
        """Whether a text of somebody may be in a session that *person* may look at by *call*."""
        writer = by.person
        if call.name in ANYWHERE:
            return writer.tenant == person.tenant
        return person.may(call, writer.tenant, writer.user) or writer.may(by.call, person.tenant, person.user)

    def check_writes(self) -> None:
        """Check that in each session there is only what those have written who may."""
        for session in self.supervisor.sessions():
            address = address_of(session.id)
            for answer in MARK.finditer(b"".join(map(write, session.messages()))):
                by = self.marks[int(answer[1])]
                assert by.person.may(by.call, address.tenant, address.user), (session.id, by)


def _without_id(answer: Answer) -> Answer:
    """Return *answer* without the random id of its request."""
    headers = tuple((name, value) for name, value in answer.headers if name != "x-request-id")
    return Answer(answer.status, headers, answer.content)


def _sessions_in(child: dict[str, Any]) -> list[str]:
    """Return the ids of the sessions in a tree, without their sub-agents."""
    if child["kind"] == "session":
        return [str(child["name"])]
    return [name for subtree in child["children"] for name in _sessions_in(subtree)]


def limits() -> HostLimits:
    """Return limits that no tenant meets."""
    return HostLimits(requests_per_second=1e9, burst=10**9, drain_seconds=0.5)


def played(seed: int, count: int) -> tuple[Tenants, ...]:
    """Play *count* requests in virtual time against two hosts, one after the other, with one journal."""
    draw, journal = Random(seed), MemoryJournal()
    worlds = list[Tenants]()

    async def both(_: object) -> None:
        worlds.append(await _one_host(draw, journal, count // 2, []))
        worlds.append(await _one_host(draw, journal, count - count // 2, worlds[0].marks))

    try:
        run(seed, ClockWatch(), both)
    except* ForeignError as group:
        raise first_of(group, ForeignError) from None
    return tuple(worlds)


async def _one_host(draw: Random, journal: MemoryJournal, count: int, marks: list[Mark]) -> Tenants:
    host = Host([Profile("desk", agent(), models=["demo"])], journal=journal, limits=limits())
    async with opened(host, ApiKeys(lines=LINES)) as answer, trio.open_nursery() as nursery:
        world = Tenants(draw, partial(ask, answer.application), answer.supervisor, nursery, marks=marks)
        world.session_ids = {session.session_id: None for session in await answer.supervisor.stored(limit=1000)}
        await world.play(count)
        nursery.cancel_scope.cancel()
    return world
