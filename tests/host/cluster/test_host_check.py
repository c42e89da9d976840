"""What `agentrail doctor` says of the hosts of a cluster: who answers, and what each runs."""

from __future__ import annotations

import json
from functools import partial

import pytest
import trio

from agentrail import SessionSpec
from agentrail.cli.doctor import main
from agentrail.cli.doctor_diagnosis import Diagnosis
from agentrail.cli.host_check import KEY as VARIABLE
from agentrail.cli.host_check import check_members, member_places
from agentrail.cli.shard_check import check_shards, shard_findings
from agentrail.cluster.shard_plan import ShardPlace
from agentrail.cluster.shard_states import NO_ACTOR, ClusterState, ShardState
from agentrail.journals import MemoryJournal, PostgresJournal
from agentrail.testing import ScriptedModel
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.cluster.several import KEY, open_place, two_places
from tests.host.cluster.test_forwarding import talks


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


async def told(*addresses: str) -> list[tuple[str, str, str]]:
    """Return level, state and advice of what is said of the hosts at *addresses*."""
    findings = await check_members(member_places(addresses), VARIABLE)
    assert all(finding.about == "host" for finding in findings)
    return [(finding.level, finding.state, finding.to_do) for finding in findings]


async def test_who_answers_says_what_it_runs() -> None:
    async with two_places(MemoryJournal(), talks()) as (first, second):
        addresses = [place.serving.url for place in (first, second)]
        for address, (level, state, to_do) in zip(addresses, await told("worker-1", *addresses), strict=True):
            assert (level, to_do) == ("ok", "")
            assert state.startswith(f"{address} answers, and runs agentrail ")


async def test_hosts_that_differ_are_told() -> None:
    journal, other = MemoryJournal(), SessionSpec(model=ScriptedModel(), system="Be brief.")
    async with open_place(journal, talks()) as first, open_place(journal, other) as second:
        *_, (level, state, to_do) = await told(first.serving.url, second.serving.url)
    assert (level, state.count("` at http://127.0.0.1:")) == ("note", 2)
    assert "replace the older ones" in to_do


@pytest.mark.parametrize("with_key", [True, False])
async def test_who_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, with_key: bool) -> None:
    if not with_key:
        monkeypatch.delenv(VARIABLE)
    gone = f"http://127.0.0.1:{free_port()}"
    level, state, to_do = (await told(gone))[0]
    assert (level, state) == ("bad", f"{gone} does not answer: Connection refused")
    assert "of its machine alone" in to_do


async def test_what_is_no_host_is_told() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"220 mail.example.com\r\n")

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        ((level, state, _),) = await told(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()
    assert (level, state.partition(": ")[2]) == ("bad", "what listens there is no host of agentrail")


@pytest.mark.parametrize("value", ["", "x" * 31])
async def test_without_the_key_it_is_told_who_answers(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    async with open_place(MemoryJournal(), talks()) as place:
        findings = await told(place.serving.url)
    assert findings[0] == ("ok", f"{place.serving.url} answers", "")
    assert findings[1][:2] == (
        "note",
        f"{VARIABLE} has no key of 32 characters or more, so hosts do not say what they run",
    )


async def test_another_key_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "x" * 32)
    async with open_place(MemoryJournal(), talks()) as place:
        ((level, state, _),) = await told(place.serving.url)
    assert level == "note"
    assert state.startswith(f"{place.serving.url} answers, but it does not say what it runs: its cluster has another")


@pytest.mark.long
@needs_postgres
async def test_the_command_asks_the_holders_of_leases(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_place(PostgresJournal(url), talks()) as place:
        await trio.to_thread.run_sync(main, ["--journal", url, "--json"])
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    ((level, state),) = [(row["level"], row["state"]) for row in rows if row["about"] == "host"]
    assert (level, state.partition(", and runs ")[0]) == ("ok", f"{place.serving.url} answers")


# Shards


def at(number: int, version: str = "0.1.0+a", count: int = 3) -> ShardState:
    return ShardState(f"shard-{number}", ShardPlace("10.0.0.1", 4000 + number, version, count, "f" * 56, 77))


def test_shards_that_are_missing_are_named() -> None:
    state = ClusterState(2, (at(0), ShardState("shard-1", None, NO_ACTOR), at(2)))
    (_, _, missing, last) = shard_findings("10.0.0.9:6379", state)
    assert (missing.level, missing.state) == ("bad", "shard-1 is missing: Ray has no actor of this name")
    where = "10.0.0.1:4002, process 77 on machine ffffffff"
    assert last == Diagnosis("shard", "ok", f"shard-2 of 3 is at {where}, with version 0.1.0+a")


def test_shards_of_several_versions_are_told() -> None:
    *_, last = shard_findings("auto", ClusterState(1, (at(0, count=2), at(1, "0.2.0+b", count=2))))
    assert (last.level, last.state) == (
        "note",
        "shards have different versions: 0.1.0+a, of 2: shard-0; 0.2.0+b, of 2: shard-1",
    )


def test_a_cluster_without_machines_and_shards() -> None:
    machines, shards = shard_findings("auto", ClusterState(0, ()))
    assert (machines.level, machines.state) == ("bad", "auto has 0 machines for shards")
    assert (shards.level, shards.state) == ("note", "there are none")


async def test_a_cluster_that_is_away_is_told() -> None:
    address = f"127.0.0.1:{free_port()}"
    (found,) = await check_shards(address, VARIABLE)
    assert (found.level, found.state) == ("bad", f"{address} cannot be looked at")
    assert "Connection refused" in found.to_do
