"""The leases of holders that have ended long ago are deleted, and nobody gets their sessions by that."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentrail.errors import SessionHeld
from agentrail.journals import Lease, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised

DAY = 86_400_000
LASTS = 30_000
LATER = 50 * DAY


@pytest.fixture
async def journals(tmp_path: Path) -> AsyncIterator[tuple[SqliteJournal, ...]]:
    """Three journals on one file."""
    async with AsyncExitStack() as stack:
        journals = tuple(SqliteJournal(tmp_path / "agentrail.db") for _ in range(3))
        for journal in journals:
            stack.push_async_callback(journal.close)
        yield journals


async def test_a_new_holder_does_not_hold_what_one_held_whose_lease_is_deleted(
    journals: tuple[SqliteJournal, ...],
) -> None:
    first, second, third = journals
    await first.claim("s", "first", Lease(DAY, LASTS))
    await second.claim("other", "second", Lease(LATER, LASTS))
    assert (await third.claim("s", "third", Lease(LATER, LASTS))).session_id == "s"


async def test_a_holder_that_claims_again_after_a_long_time_has_a_lease(journals: tuple[SqliteJournal, ...]) -> None:
    first, second, third = journals
    await first.claim("s", "first", Lease(DAY, LASTS))
    await second.claim("t", "second", Lease(DAY, LASTS))
    await third.claim("u", "third", Lease(LATER, LASTS))  # the lease of the first one is deleted
    claim = await first.claim("v", "first", Lease(LATER, LASTS))
    error = await raised(SessionHeld, third.claim("v", "third", Lease(LATER, LASTS)))
    assert error.args[:2] == ("v", "first")
    assert await first.renew((claim,), Lease(LATER, LASTS)) == ()


async def test_a_claim_shortens_no_lease_of_its_holder(journals: tuple[SqliteJournal, ...]) -> None:
    first, second, _ = journals
    await first.claim("s", "first", Lease(DAY, LASTS))
    await first.claim("t", "first", Lease(DAY, LASTS // 10))
    await raised(SessionHeld, second.claim("s", "second", Lease(DAY + LASTS // 2, LASTS)))
