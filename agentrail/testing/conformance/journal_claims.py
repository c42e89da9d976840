"""Tests of claims and leases, which `JournalConformance` inherits."""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

from itertools import pairwise

import trio

from agentrail.core.vocabulary.state import Setup, State
from agentrail.errors import Fenced, SessionHeld
from agentrail.ports.journal import Claim, Journal, Lease, Snapshot
from agentrail.testing.conformance.journal_samples import opened, refused, run_of


class ClaimConformance:
    """Tests of who may write the records of a session, and of leases."""

    async def again(self, journal: Journal) -> Journal:
        """Close the journal and return it as another process would open it: here, the same object."""
        await journal.close()
        return journal

    # Claims

    async def test_whoever_claims_last_is_the_only_writer(self, journal: Journal) -> None:
        """A writer with an old epoch is refused, and has written nothing."""
        first = await opened(journal, "s")
        second = await journal.claim("s", "another")
        assert (second.epoch > first.epoch, second.head) == (True, 3)
        await refused(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        await refused(Fenced, journal.keep(first, Snapshot("s", 3, State("s", Setup(), "demo"))))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4
        journal = await self.again(journal)
        await refused(Fenced, journal.append(first, 4, run_of("s", 5, 1)))
        third = await journal.claim("s", "a third")
        assert (third.epoch > second.epoch, third.head) == (True, 4)
        assert await journal.read("s") == run_of("s", 1, 4)

    async def test_what_somebody_holds_is_not_claimed_by_others(self, journal: Journal) -> None:
        """While a lease lasts, another holder's claim is refused, changes nothing, and names the holder."""
        first = await opened(journal, "s", lease=Lease(1000, 500))
        for at in (0, 1000, 1499):
            error = await refused(SessionHeld, journal.claim("s", "another", Lease(at, 500)))
            assert error.args == ("s", "test", 1500)
        await refused(SessionHeld, journal.claim("s", "another"))
        assert await journal.append(first, 3, run_of("s", 4, 1)) == 4
        second = await journal.claim("s", "another", Lease(1500, 500))
        assert (second.epoch > first.epoch, second.head) == (True, 4)
        await refused(Fenced, journal.append(first, 4, run_of("s", 5, 1)))
        await refused(SessionHeld, journal.claim("s", "test", Lease(1999, 500)))

    async def test_a_session_is_taken_over_from_whoever_holds_it(self, journal: Journal) -> None:
        """With `take_over`, a claim is given at once, the earlier holder can write no more, and is told so."""
        first = await opened(journal, "s", lease=Lease(1000, 500))
        second = await journal.claim("s", "another", Lease(1100, 500), take_over=True)
        await refused(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        assert await journal.renew([first], Lease(1200, 500)) == (first,)
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4

    async def test_a_holder_claims_its_own_sessions_again(self, journal: Journal) -> None:
        """A lease does not keep its own holder away: it may have started anew at the same address."""
        first = await opened(journal, "s", lease=Lease(1000, 500))
        second = await journal.claim("s", "test", Lease(1001, 500))
        await refused(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4

    async def test_leases_are_renewed_together(self, journal: Journal) -> None:
        """`renew` makes the leases of several sessions last longer, also one that has ended and that nobody took."""
        claims = [await opened(journal, name, lease=Lease(1000, 500)) for name in ("a", "b", "c")]
        assert await journal.renew(claims[:2], Lease(2000, 500)) == ()
        for name in ("a", "b"):
            await refused(SessionHeld, journal.claim(name, "another", Lease(2499, 500)))
        assert (await journal.claim("c", "another", Lease(2000, 500))).head == 3
        assert await journal.renew([], Lease(2000, 500)) == ()

    async def test_a_lease_that_was_lost_is_not_renewed(self, journal: Journal) -> None:
        """`renew` returns the claims of sessions that were claimed since, and does not touch the later leases."""
        lost = [await opened(journal, name, lease=Lease(1000, 500)) for name in ("a", "b")]
        kept = await opened(journal, "c", lease=Lease(1000, 500))
        again = await journal.claim("a", "test", Lease(1600, 500))
        other = await journal.claim("b", "another", Lease(1600, 500))
        assert set(await journal.renew([*lost, kept], Lease(9000, 500))) == set(lost)
        await refused(SessionHeld, journal.claim("b", "a third", Lease(2099, 500)))
        assert (await journal.claim("b", "a third", Lease(2100, 500))).epoch > other.epoch
        assert await journal.renew([again, kept], Lease(9000, 500)) == ()
        assert await journal.renew([Claim("nobody", 1, 0)], Lease(9000, 500)) == (Claim("nobody", 1, 0),)

    async def test_what_is_released_is_free(self, journal: Journal) -> None:
        """After `release`, others claim a session at once; an earlier holder releases nothing of a later one."""
        first = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.release([first, Claim("nobody", 1, 0)])
        second = await journal.claim("s", "another", Lease(1001, 500))
        await journal.release([first])
        await refused(SessionHeld, journal.claim("s", "test", Lease(1002, 500)))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4
        await journal.release([second])
        assert await journal.renew([second], Lease(1003, 500)) == ()
        held = await refused(SessionHeld, journal.claim("s", "test", Lease(1004, 500)))
        assert held.args[1] == "another"

    async def test_a_claim_can_be_renewed_after_the_journal_was_closed(self, journal: Journal) -> None:
        """A claim is not lost because the journal was closed and opened again."""
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.close()
        assert await journal.renew([claim], Lease(1200, 500)) == ()
        await refused(SessionHeld, journal.claim("s", "another", Lease(1699, 500)))

    async def test_nobody_writes_without_a_claim(self, journal: Journal) -> None:
        """An `append` without a valid claim is refused, to a stored session and to an unknown one."""
        await opened(journal, "s")
        for session_id, head in (("s", 3), ("t", 0)):
            for epoch in (0, 7, 2**40):
                claim = Claim(session_id, epoch, head)
                await refused(Fenced, journal.append(claim, head, run_of(session_id, head + 1, 1)))
        assert [stored.session_id for stored in await journal.sessions()] == ["s"]

    async def test_a_wrong_head_is_refused(self, journal: Journal) -> None:
        """An `append` with a wrong number of the last record is refused."""
        claim = await opened(journal, "s")
        for expected in (0, 2, 4):
            await refused(Fenced, journal.append(claim, expected, run_of("s", expected + 1, 1)))
        assert await journal.read("s") == run_of("s", 1, 3)

    async def test_claims_at_the_same_time_have_different_epochs(self, journal: Journal) -> None:
        """Concurrent claims get different epochs, and only the highest can write."""
        claims: list[Claim] = []

        async def claim() -> None:
            claims.append(await journal.claim("s", "test"))

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for _ in range(20):
                nursery.start_soon(claim)
        claims.sort(key=lambda each: each.epoch)
        assert all(one.epoch < other.epoch for one, other in pairwise(claims))
        for old in claims[:-1]:
            await refused(Fenced, journal.append(old, 0, run_of("s", 1, 1)))
        assert await journal.append(claims[-1], 0, run_of("s", 1, 1)) == 1
