"""Parts of a shard without Ray: who has its name, what an end tells, and what is no program of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agentrail.cluster.opened_cluster import made_plan
from agentrail.cluster.shard_actor import PERIOD, ServedShard, Tenure
from agentrail.cluster.shard_plan import ShardPlan
from agentrail.errors import BadChoice, JournalUnavailable
from agentrail.journals import Claim, Lease, MemoryJournal

LONG = "k" * 32
PLAN = ShardPlan(2, "", "", "", 10.0, LONG)


class Away(MemoryJournal):
    """A journal that cannot be reached when leases are renewed, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    async def renew(self, claims: object, lease: object) -> tuple[Claim, ...]:
        self.left -= 1
        if self.left >= 0:
            await trio.lowlevel.checkpoint()
            raise JournalUnavailable("renew", "it is away")
        return await super().renew(claims, lease)  # type: ignore[arg-type]  # as it came


async def test_the_name_of_a_shard_is_taken_from_an_older_process_which_hears_of_it(autojump_clock: object) -> None:  # noqa: ARG001
    journal = Away(3)
    older, newer = Tenure(journal, "shard-0", 10.0), Tenure(journal, "shard-0", 10.0)
    await older.begin()
    with trio.move_on_after(PERIOD * 3.5) as waiting:
        await older.lost()
    assert waiting.cancelled_caught, "a journal that is away takes no name from anybody"
    await newer.begin()
    with trio.fail_after(PERIOD * 3):
        await older.lost()


async def test_a_name_that_is_given_up_is_free_for_others_at_once(autojump_clock: object) -> None:  # noqa: ARG001
    journal = MemoryJournal()
    tenure = Tenure(journal, "shard-0", 10.0)
    await tenure.begin()
    await tenure.end()
    await journal.claim("-shard-0", "another", Lease(0, 1))


async def test_a_shard_that_ends_tells_no_address_and_why() -> None:
    shard = ServedShard(PLAN, 0, lambda: None)
    shard.end()
    assert (shard.where(0.0), shard.problem, shard.is_ending) == (b"", "it is ending", True)


@pytest.mark.parametrize("name", ["none.py", "."])
def test_what_is_no_file_here_is_refused_before_any_machine_is_asked(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadChoice, match="a Python file"):
        made_plan(str(tmp_path / name), 2, LONG, "", 10.0)


def test_the_file_of_a_plan_is_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert made_plan("app.py", 2, LONG, "", 10.0).file == str(tmp_path / "app.py")
