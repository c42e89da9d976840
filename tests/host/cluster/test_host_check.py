"""What `agentrail doctor` says of the hosts of a cluster: who answers, and what each runs."""

from __future__ import annotations

import json
from functools import partial

import pytest
import trio

from agentrail import SessionSpec
from agentrail.cli.reports.host_check import KEY as VARIABLE
from agentrail.cli.reports.host_check import check_members, member_addresses
from agentrail.journals import MemoryJournal, PostgresJournal
from agentrail.testing import ScriptedModel
from tests.adapters.journals.postgres.server import needs_postgres
from tests.cli.calling import subcommand
from tests.free_port import free_port
from tests.host.cluster.several import KEY, open_member, two_members
from tests.host.cluster.test_forwarding import talks

main = subcommand("doctor")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


async def diagnoses(*addresses: str) -> list[tuple[str, str, str]]:
    """Return level, state and advice of what is said of the hosts at *addresses*."""
    findings = await check_members(member_addresses(addresses), VARIABLE)
    assert all(finding.about == "host" for finding in findings)
    return [(finding.level, finding.state, finding.to_do) for finding in findings]


async def test_who_answers_says_what_it_runs() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        addresses = [desk.serving.url for desk in (first, second)]
        for address, (level, state, to_do) in zip(addresses, await diagnoses("worker-1", *addresses), strict=True):
            assert (level, to_do) == ("ok", "")
            assert state.startswith(f"{address} answers, and runs agentrail ")


async def test_hosts_that_differ_are_told() -> None:
    journal, other = MemoryJournal(), SessionSpec(model=ScriptedModel(), system="Be brief.")
    async with open_member(journal, talks()) as first, open_member(journal, other) as second:
        *_, (level, state, to_do) = await diagnoses(first.serving.url, second.serving.url)
    assert (level, state.count("` at http://127.0.0.1:")) == ("note", 2)
    assert "replace the older ones" in to_do


@pytest.mark.parametrize("with_key", [True, False])
async def test_who_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, with_key: bool) -> None:
    if not with_key:
        monkeypatch.delenv(VARIABLE)
    text = f"http://127.0.0.1:{free_port()}"
    level, state, to_do = (await diagnoses(text))[0]
    assert (level, state) == ("bad", f"{text} does not answer: Connection refused")
    assert "of its machine alone" in to_do


async def test_what_is_no_host_is_told() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"220 mail.example.com\r\n")

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        ((level, state, _),) = await diagnoses(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()
    assert (level, state.partition(": ")[2]) == ("bad", "what listens there is no host of agentrail")


@pytest.mark.parametrize("value", ["", "x" * 31, f"{'x' * 20} {'y' * 20}", " ".join(["x" * 32] * 3)])
async def test_without_the_key_it_is_told_who_answers(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    async with open_member(MemoryJournal(), talks()) as desk:
        findings = await diagnoses(desk.serving.url)
    assert findings[0] == ("ok", f"{desk.serving.url} answers", "")
    assert findings[1][:2] == (
        "note",
        f"{VARIABLE} has no key of 32 characters or more, so hosts do not say what they run",
    )


async def test_another_key_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "x" * 32)
    async with open_member(MemoryJournal(), talks()) as desk:
        ((level, state, _),) = await diagnoses(desk.serving.url)
    assert level == "note"
    assert state.startswith(f"{desk.serving.url} answers, but it does not say what it runs: its cluster has another")


@pytest.mark.long
@needs_postgres
async def test_the_command_asks_the_holders_of_leases(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_member(PostgresJournal(url), talks()) as desk:
        await trio.to_thread.run_sync(main, ["--journal", url, "--json"])
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    ((level, state),) = [(row["level"], row["state"]) for row in rows if row["about"] == "host"]
    assert (level, state.partition(", and runs ")[0]) == ("ok", f"{desk.serving.url} answers")
