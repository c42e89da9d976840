"""What `agentrail doctor` says of the server of a journal."""

from __future__ import annotations

import json

import psycopg
import pytest

from agentrail.adapters.journals.postgres.server_facts import HolderFacts, ServerFacts, server_facts
from agentrail.adapters.journals.postgres.server_tables import VERSION
from agentrail.cli.reports.doctor import server_findings
from agentrail.journals import Lease, PostgresJournal
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.runtime.shared.clock import Clock
from tests.adapters.journals.postgres.server import PgBouncer, needs_pgbouncer, needs_postgres
from tests.cli.calling import subcommand
from tests.kit import opened, prompted

main = subcommand("doctor")

pytestmark = [needs_postgres, pytest.mark.long]

SOUND = ServerFacts("15.18", 150_018, 0, is_pooled=False, is_durable=True, is_replica=False, tables=2)


def doctor(capsys: pytest.CaptureFixture[str], url: str) -> list[tuple[str, str]]:
    """Return level and state of what the command says of the journal."""
    main(["--journal", url, "--json"])
    out = capsys.readouterr().out
    assert "secret" not in out
    rows = map(json.loads, out.splitlines())
    return [(row["level"], row["state"].partition("/postgres: ")[2]) for row in rows if row["about"] == "journal"]


def test_a_server_is_looked_at_and_left_as_it_is(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = doctor(capsys, url)
    assert (first[0], first[1][:11]) == ("ok", "PostgreSQL ")
    assert second == ("note", "it has no tables of a journal yet")
    with psycopg.connect(url) as connection:
        assert connection.execute("select to_regnamespace('agentrail')").fetchall() == [(None,)]


async def test_its_sessions_and_claims_are_counted(url: str) -> None:
    journal = PostgresJournal(url)
    await opened(journal, "a")
    await journal.claim("b", "test")
    await journal.close()
    facts = server_facts(url, Clock().now_ms)
    assert (facts.tables, facts.sessions, facts.is_pooled) == (VERSION, 1, False)
    assert abs(facts.ahead_ms) < 1_000  # the clock is the same; only the way there takes time
    assert facts.highest_epoch == facts.last_epoch > 1
    with psycopg.connect(url) as connection:
        connection.execute("select setval('agentrail.epoch', 1)")
    restored = server_facts(url, lambda: 0)
    assert (restored.last_epoch, restored.ahead_ms > 10**12) == (1, True)


async def test_who_holds_what_is_told(url: str) -> None:
    hosts = [
        (PostgresJournal(url), name, Lease(0, lasts)) for name, lasts in (("a", 600_000), ("b", 600_000), ("c", 1))
    ]
    for number, (journal, name, lease) in enumerate(hosts):
        if not number:
            for slot in range(SLOTS):
                await journal.claim(slot_claim(slot), name, lease)
        claim = await journal.claim(f"of-{name}", name, lease)
        await journal.append(claim, 0, (prompted(f"of-{name}", 1, at_work=True),))
        await journal.close()
    facts = server_facts(url, Clock().now_ms)
    assert [(each.address, each.slots, each.sessions) for each in facts.holders] == [("a", SLOTS, 1), ("b", 0, 1)]
    assert facts.unattended == 1
    assert all(590_000 < each.left_ms <= 600_000 for each in facts.holders)


@needs_pgbouncer
@pytest.mark.usefixtures("url")
async def test_a_pool_between_is_noticed(pool: PgBouncer) -> None:
    assert server_facts(pool.url, Clock().now_ms).is_pooled


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (SOUND.but(version_number=120_001), ("bad", "PostgreSQL 15.18", "use version 13 or later")),
        (
            SOUND.but(is_pooled=True),
            ("ok", "PostgreSQL 15.18, with a pool of connections between", ""),
        ),
        (
            SOUND.but(is_replica=True),
            ("bad", "it is a replica, and takes no records", "give the URL of the server that it follows"),
        ),
        (
            SOUND.but(is_durable=False),
            (
                "bad",
                "a commit is answered before it is on the disk",
                "set `fsync` and `synchronous_commit` to `on`",
            ),
        ),
        (
            SOUND.but(ahead_ms=-5_000),
            (
                "note",
                "its clock is 5 s behind that of this machine",
                "set the one that is wrong: leases go by that of the server",
            ),
        ),
        (
            SOUND.but(tables=3),
            ("bad", "its tables have version 3, and this agentrail makes 2", "use a later agentrail"),
        ),
        (
            SOUND.but(highest_epoch=7, last_epoch=3),
            (
                "bad",
                "claim 7 is there, and the sequence is at 3, as after a restore",
                "run `agentrail journal restored URL`",
            ),
        ),
        (SOUND.but(sessions=12_000), ("ok", "12,000 sessions; its log is not archived", "")),
        (SOUND.but(is_archived=True), ("ok", "0 sessions; its log is archived", "")),
        (
            SOUND.but(isolation="serializable"),
            (
                "note",
                "transactions are `serializable`, so claims that meet fail and are made again",
                "set `default_transaction_isolation` to `read committed` for its user",
            ),
        ),
        (
            SOUND.but(holders=(HolderFacts("http://10.0.0.5:8765", 9_500, 16, 1),)),
            (
                "ok",
                "http://10.0.0.5:8765 runs 1 session, looks after 16 of 32 slots, and has a lease for 9.5 s",
                "",
            ),
        ),
        (
            SOUND.but(unattended=3),
            (
                "note",
                "3 sessions have work under way that nobody carries out",
                "start a host, or wait: one that runs goes on with them",
            ),
        ),
    ],
)
def test_what_is_found_is_told(facts: ServerFacts, finding: tuple[str, str, str]) -> None:
    assert finding in list(server_findings(facts, 2))


def test_a_server_that_is_away_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    ((level, _),) = doctor(capsys, "postgresql://a:secret@127.0.0.1:1/postgres")
    assert level == "bad"
