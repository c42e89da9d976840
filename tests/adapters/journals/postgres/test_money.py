"""Several machines keep one limit by a server, also when lines are cut."""

from collections.abc import Sequence
from contextlib import suppress

import psycopg
import pytest
import trio
from hypothesis import given, settings

from agentrail.errors import AgentrailError
from agentrail.journals import Balance, PostgresJournal
from agentrail.ports.money import DAY_MS
from agentrail.runtime.shared.clock import Clock
from tests.adapters.journals.money import DAY, LIMIT, MOVES, Move, check_moves, check_race, expense
from tests.adapters.journals.postgres.proxy import CutLine
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres

pytestmark = [pytest.mark.long, needs_postgres]


def emptied(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set client_min_messages = error")
        connection.execute("drop schema if exists agentrail cascade")


@given(MOVES)
@settings(max_examples=10)
def test_a_server_says_what_the_rule_says_to_two_who_use_it(server: PostgresServer, moves: Sequence[Move]) -> None:
    emptied(server.url)
    trio.run(check_moves, lambda: PostgresJournal(server.url), moves)


async def test_four_who_use_a_server_keep_one_limit(url: str) -> None:
    journals = [PostgresJournal(url) for _ in range(4)]
    await check_race(journals, 30)
    for journal in journals:
        await journal.close()


async def test_the_table_is_made_once_by_several_who_begin_at_once(url: str) -> None:
    journals = [PostgresJournal(url) for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for number, journal in enumerate(journals):
            nursery.start_soon(journal.reserve_money, expense(number, 20), LIMIT)
    balance = await journals[0].reserve_money(expense(9, 21), LIMIT)
    assert balance == Balance(is_reserved=False, spent=0, reserved=80)
    for journal in journals:
        await journal.close()


async def test_two_who_pay_for_the_same_tenants_in_another_order_do_not_deadlock(url: str) -> None:
    """Also for the first time on a day, when their rows are made and those of past days are deleted."""
    journals = [PostgresJournal(url) for _ in range(2)]
    tenants = [f"t{number}" for number in range(12)]
    for number in range(10):
        async with trio.open_nursery() as nursery:
            for index, names in enumerate((tenants, tenants[::-1])):
                for tenant in names:  # those that wait together are one transaction
                    own = expense(2 * number + index, 1, tenant=tenant, day=DAY + number // 2)
                    nursery.start_soon(journals[index].reserve_money, own, LIMIT)
    for journal in journals:
        await journal.close()


async def test_a_host_whose_clock_is_days_ahead_deletes_nothing_of_today(url: str) -> None:
    journal, today = PostgresJournal(url), Clock().now_ms() // DAY_MS
    await journal.reserve_money(expense(1, 60, day=today), LIMIT)
    await journal.reserve_money(expense(1, 60, day=today + 9), LIMIT)
    balance = await journal.reserve_money(expense(2, 60, day=today), LIMIT)
    assert balance == Balance(is_reserved=False, spent=0, reserved=60)
    await journal.close()


async def test_a_call_whose_answer_is_lost_may_be_made_again(url: str, server: PostgresServer) -> None:
    line = CutLine(server.port)
    journal = PostgresJournal(url.replace(str(server.port), str(line.port)))
    await journal.reserve_money(expense(1, 20), LIMIT)
    for call in (
        lambda: journal.reserve_money(expense(2, 30), LIMIT),
        lambda: journal.settle_money([(expense(1, 20), 3)]),
    ):
        line.is_to_lose = True
        for _ in range(2):
            with suppress(AgentrailError):  # what it raises is another test's
                await call()
        await call()
    balance = await journal.reserve_money(expense(9, LIMIT), LIMIT)
    assert balance == Balance(is_reserved=False, spent=3, reserved=30)
    await journal.close()
    line.close()
