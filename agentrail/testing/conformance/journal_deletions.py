"""Tests of deleting sessions, which `JournalConformance` inherits."""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

import trio

from agentrail.core.vocabulary.commands import Accepted
from agentrail.core.vocabulary.state import Setup, State
from agentrail.errors import Fenced, SessionBeingDeleted, SessionHeld
from agentrail.ports.journal import About, Claim, Journal, Lease, SessionFilter, Snapshot, StoredSession
from agentrail.testing.conformance.journal_lists import ListConformance
from agentrail.testing.conformance.journal_samples import opened, prompted, refused, run_of

NOBODY = ""
"""A holder of no session."""


async def below(journal: Journal, session_id: str, *path: str) -> Claim:
    """Write the first record of a session whose path of parents and calls is *path*; return the claim."""
    claim = await journal.claim(session_id, "test")
    state = State(session_id, Setup(path=path), "demo")
    await journal.append(claim, 0, (prompted(session_id, 1, opening=state),))
    return claim


async def stored(journal: Journal) -> list[str]:
    """Return the ids of all stored sessions."""
    return [one.session_id for one in await journal.sessions()]


class DeletionConformance(ListConformance):
    """Tests of `delete`."""

    async def test_of_a_deleted_session_nothing_is_left(self, journal: Journal) -> None:
        """Records, answers and snapshot are gone, before and after the journal is opened again; others are whole."""
        for name in ("s", "t"):
            claim = await opened(journal, name)
            await journal.append(claim, 3, (prompted(name, 4, command="c", answer=Accepted("p4", "started")),))
            await journal.keep(claim, Snapshot(name, 4, State(name, Setup(), "demo")))
        assert await journal.delete("s", NOBODY, 0) == 1
        for _ in range(2):
            assert await journal.read("s") == ()
            assert await journal.answer("s", "c") is None
            assert await journal.place("s", 2) == 0
            assert (await journal.latest("s")).snapshot is None
            assert await stored(journal) == ["t"]
            journal = await self.again(journal)
        assert len(await journal.read("t")) == 4
        assert await journal.answer("t", "c") is not None
        assert (await journal.latest("t")).snapshot is not None

    async def test_what_is_not_stored_is_not_deleted(self, journal: Journal) -> None:
        """`delete` returns 0 for an id without records, and 1 once for a session."""
        assert await journal.delete("s", NOBODY, 0) == 0
        await journal.claim("s", "test")
        assert await journal.delete("s", NOBODY, 0) == 0
        await opened(journal, "s")
        assert await journal.delete("s", NOBODY, 0) == 1
        assert await journal.delete("s", NOBODY, 0) == 0

    async def test_an_id_can_be_used_again(self, journal: Journal) -> None:
        """A new session with the id of a deleted one begins with nothing, and earlier claims of it are refused."""
        old = await opened(journal, "s", 0)
        said = State("s", Setup(tenant="acme", owner="ann"), "demo", title="a trip", labels=("vip",))
        await journal.append(old, 0, (prompted("s", 1, opening=said), *run_of("s", 2, 2)))
        await journal.append(old, 3, (prompted("s", 4, command="c", answer=Accepted("p4", "started")),))
        await journal.delete("s", NOBODY, 0)
        await refused(Fenced, journal.append(old, 4, run_of("s", 5, 1)))
        journal = await self.again(journal)
        assert await journal.sessions(SessionFilter(label="vip")) == ()
        new = await opened(journal, "s")
        assert await journal.sessions() == (StoredSession("s", 3, about=About(created=1), active=3),)
        assert (new.epoch > old.epoch, new.head) == (True, 0)
        await refused(Fenced, journal.append(old, 3, run_of("s", 4, 1)))
        await refused(Fenced, journal.keep(old, Snapshot("s", 3, State("s", Setup(), "demo"))))
        assert await journal.renew([old], Lease(0, 500)) == (old,)
        assert await journal.answer("s", "c") is None
        assert await journal.read("s") == run_of("s", 1, 3)

    async def test_sub_agents_are_deleted_with_their_session(self, journal: Journal) -> None:
        """Sub-agents at any depth are deleted, by who their parent is; an id that only looks like one of them stays."""
        await opened(journal, "s")
        await below(journal, "s.c1", "s", "c1")
        await below(journal, "shortened", "s", "c2")
        await below(journal, "s.c1.c9", "s", "c1", "s.c1", "c9")
        await opened(journal, "s.c3")
        await below(journal, "t.c1", "t", "c1")
        journal = await self.again(journal)
        assert await journal.delete("s", NOBODY, 0) == 4
        assert await stored(journal) == ["s.c3", "t.c1"]

    async def test_a_sub_agent_alone_can_be_deleted(self, journal: Journal) -> None:
        """Its parent and its siblings stay, and a session that is started under its id later is not its parent's."""
        await opened(journal, "s")
        for child in ("s.c1", "s.c2"):
            await below(journal, child, "s", child[2:])
        assert await journal.delete("s.c1", NOBODY, 0) == 1
        assert await stored(journal) == ["s", "s.c2"]
        await opened(journal, "s.c1")
        assert await journal.delete("s", NOBODY, 0) == 2
        assert await stored(journal) == ["s.c1"]

    async def test_what_somebody_holds_is_not_deleted(self, journal: Journal) -> None:
        """While a session or one of its sub-agents is held, none of them is deleted, and the holder is named."""
        await opened(journal, "s")
        claim = await below(journal, "s.c1", "s", "c1")
        await journal.claim("s.c1", "test", Lease(1000, 500))
        for at in (0, 1499):
            error = await refused(SessionHeld, journal.delete("s", "another", at))
            assert error.args == ("s.c1", "test", 1500)
        assert await stored(journal) == ["s", "s.c1"]
        assert len(await journal.read("s.c1")) == claim.head + 1
        assert await journal.delete("s", "another", 1500) == 2

    async def test_a_holder_deletes_its_own_sessions(self, journal: Journal) -> None:
        """A lease does not keep its own holder from deleting the session, and ends with it."""
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        assert await journal.delete("s", "test", 1001) == 1
        await refused(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
        assert (await journal.claim("s", "another", Lease(1002, 500))).head == 0

    async def test_what_another_session_needs_too_stays(self, journal: Journal) -> None:
        """A text that two sessions have is kept until both are deleted, however long it is."""
        long = "word " * 50_000
        for name in ("s", "t", "u"):
            await journal.append(await journal.claim(name, "test"), 0, (prompted(name, 1, long),))
        assert await journal.delete("s", NOBODY, 0) == 1
        journal = await self.again(journal)
        assert await journal.read("t") == (prompted("t", 1, long),)
        assert await journal.delete("t", NOBODY, 0) == 1
        assert await journal.read("u") == (prompted("u", 1, long),)

    async def test_others_write_while_sessions_are_deleted(self, journal: Journal) -> None:
        """Sessions that are deleted at the same time do not mix with those that go on."""
        for number in range(10):
            await opened(journal, f"old-{number}", 70)
        claims = {f"s{number}": await journal.claim(f"s{number}", "test") for number in range(5)}

        async def write(name: str) -> None:
            for head in range(10):
                await journal.append(claims[name], head, run_of(name, head + 1, 1))

        async def delete(name: str) -> None:
            assert await journal.delete(name, NOBODY, 0) == 1

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for number in range(10):
                nursery.start_soon(delete, f"old-{number}")
            for name in claims:
                nursery.start_soon(write, name)
        assert await stored(journal) == sorted(claims)
        for name in claims:
            assert await journal.read(name) == run_of(name, 1, 10)

    async def test_a_deletion_that_is_cancelled_is_whole_or_goes_on(self, journal: Journal) -> None:
        """After a cancelled `delete` the session is whole, refused or gone; the next `delete` finishes."""
        for passes in range(12):
            await opened(journal, "s", 150)
            with trio.CancelScope() as scope:

                async def cancel(scope: trio.CancelScope = scope, passes: int = passes) -> None:
                    for _ in range(passes * passes):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
                    nursery.start_soon(cancel)
                    await journal.delete("s", NOBODY, 0)
            try:
                assert len(await journal.read("s")) in (0, 150)
            except SessionBeingDeleted:
                await refused(SessionBeingDeleted, journal.claim("s", "test"))
                assert await stored(journal) == []
            await journal.delete("s", NOBODY, 0)
            assert await journal.read("s") == ()
