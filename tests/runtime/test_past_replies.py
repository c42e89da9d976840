"""The reply to a prompt that is over is found where it is: among the last records, however many there are."""

from collections.abc import Sequence

import pytest

from agentrail import Reply, State
from agentrail.events import AgentEnd
from agentrail.journals import Record
from agentrail.runtime.inbox.replies import outcome_of
from tests.kit import NOTHING_USED, Setup, run_of

RECORDS = 3_000


@pytest.mark.parametrize(
    ("number", "pages"),
    [
        (3_000, [(2_996, 4)]),
        (2_997, [(2_996, 4)]),
        (2_996, [(2_996, 4), (2_980, 16)]),
        (1, [(2_996, 4), (2_980, 16), (2_916, 64), (2_660, 256), (1_660, 1_000), (660, 1_000), (0, 660)]),
        (None, [(2_996, 4), (2_980, 16), (2_916, 64), (2_660, 256), (1_660, 1_000), (660, 1_000), (0, 660)]),
    ],
)
async def test_records_are_read_from_the_last_one_back(number: int | None, pages: list[tuple[int, int]]) -> None:
    records = list(run_of("s", 1, RECORDS))
    if number is not None:
        envelope = records[number - 1].events[0].but(event=AgentEnd("p", "end", (), NOTHING_USED))
        records[number - 1] = records[number - 1].but(events=(envelope,))
    request = list[tuple[int, int]]()

    async def read(after: int, limit: int) -> Sequence[Record]:
        request.append((after, limit))
        return records[after : after + limit]

    outcome = await outcome_of(State("s", Setup("brief"), "demo"), "p", read, RECORDS, tuple)
    assert isinstance(outcome, Reply) == (number is not None)
    assert request == pages
