"""`/healthz` and `/readyz`: open to all, bounded in time, and not ready when something is missing."""

from __future__ import annotations

import sqlite3
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from agentrail import SessionSpec, tool
from agentrail.adapters.journals.read_only import ReadOnlyJournal
from agentrail.errors import BadProfile, OutsideError, WrongType
from agentrail.host import (
    HandledResponse,
    Host,
    HostCheck,
    HostLimits,
    HostPlugin,
    Identity,
    PluginHost,
    Profile,
    Request,
    RequestContext,
)
from agentrail.host.health.health_parts import FRESH, LoopLag, Probe
from agentrail.host.plugins.plugin_runner import FAILING, HostPluginRow
from agentrail.journals import SqliteJournal
from tests.coded import coded
from tests.host.hosted import LIMITS, Desk, open_desk, scripted
from tests.host.test_host import chat, until
from tests.patience import PATIENCE

CALM = LIMITS.but(check_seconds=PATIENCE)
OK = {"journal": True, "disk": True, "loop": True, "plugins": True, "profiles": True, "accepting": True}


async def ready(desk: Desk) -> tuple[int, dict[str, bool]]:
    """Return the status, and the result of each check, as who has no key sees them."""
    async with httpx.AsyncClient(base_url=desk.serving.url, trust_env=False, timeout=PATIENCE) as nobody:
        answer = await nobody.get("/readyz")
        assert (await nobody.get("/healthz")).json() == {"status": "ok"}
    body = answer.json()
    assert body.keys() == {"ready", "checks"}
    checks = {check["name"]: check["ok"] for check in body["checks"]}
    assert body["ready"] is all(checks.values())
    return answer.status_code, checks


def none() -> str:
    """Do nothing."""
    return ""


async def test_a_host_whose_profile_can_start_no_session_does_not_start(tmp_path: Path) -> None:
    for spec, why in (
        (SessionSpec(model="demo", working_dir=str(tmp_path / "gone")), r"working_dir.* where no folder is"),
        (SessionSpec(model="demo", tools=[tool(none), tool(none)]), "none"),
        (SessionSpec(model=("mistral:x", {"zork": 1})), "there is no option `zork`"),
    ):
        profiles = [Profile("well", SessionSpec(model="demo")), Profile("ill", spec)]
        with pytest.raises(BadProfile, match=f"ill.*{why}"):
            async with Host(profiles).serving():
                pytest.fail("it serves")


async def status_becomes(client: httpx.AsyncClient, status: int) -> httpx.Response:
    """Return the first answer of `/readyz` with *status*: a result is used again for a second."""
    with trio.fail_after(PATIENCE):
        while (answer := await client.get("/readyz")).status_code != status:  # noqa: ASYNC110 - only the host knows
            await trio.sleep(0.05)
    return answer


async def test_a_host_whose_profile_cannot_start_a_session_any_more_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    spec = SessionSpec(model="demo", working_dir=str(folder))
    async with (
        Host([Profile("desk", spec)], limits=CALM).serving() as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=PATIENCE) as nobody,
    ):
        await status_becomes(nobody, 200)
        folder.rmdir()
        answer = await status_becomes(nobody, 503)
        assert [check["name"] for check in answer.json()["checks"] if not check["ok"]] == ["profiles"]
        assert "no folder is" not in answer.text
        folder.mkdir()
        await status_becomes(nobody, 200)
    (line,) = [record.getMessage() for record in caplog.records if "no session can start" in record.getMessage()]
    assert "where no folder is" in line


class Secretive(HostPlugin):
    name = "a-name-to-keep"


async def test_a_host_that_is_well_is_ready(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "agentrail.db")
    async with open_desk(scripted("one"), [Secretive()], journal=journal, limits=CALM) as desk:
        assert await ready(desk) == (200, OK)
        assert "a-name-to-keep" not in (await desk.ann.get("/readyz")).text
        assert (await desk.ann.get("/v1/sessions")).json()["items"] == []
        assert await journal.sessions() == ()  # the check leaves nothing that is listed


@pytest.mark.long
async def test_a_journal_that_is_only_read_is_ready_as_long_as_it_can_be(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "agentrail.db")
    await journal.sessions()
    async with open_desk(scripted("one"), journal=ReadOnlyJournal(journal), limits=CALM) as desk:
        assert await ready(desk) == (200, OK)
    await journal.close()
    journal.path.write_bytes(b"no journal" * 1000)
    broken = ReadOnlyJournal(SqliteJournal(journal.path))
    async with open_desk(scripted("one"), journal=broken, limits=CALM) as desk:
        assert await ready(desk) == (503, OK | {"journal": False})


class Connections:
    """Opens the connections of a journal, and keeps the first, by which it writes."""

    def __init__(self) -> None:
        self.opened: list[sqlite3.Connection] = []

    def __call__(self, database: str, **options: object) -> sqlite3.Connection:
        self.opened.append(sqlite3.connect(database, check_same_thread=False, **options))  # type: ignore[call-overload]
        return self.opened[-1]


async def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    connections = Connections()
    journal = SqliteJournal(tmp_path / "agentrail.db", connect=connections)
    async with open_desk(scripted("one"), journal=journal, limits=CALM) as desk:
        await chat(desk.ann, "hi", session="trip")
        connections.opened[0].execute("PRAGMA query_only = 1")
        assert await ready(desk) == (503, OK | {"journal": False})
        connections.opened[0].execute("PRAGMA query_only = 0")


@pytest.mark.long
async def test_a_journal_that_is_full(tmp_path: Path) -> None:
    connections = Connections()
    journal = SqliteJournal(tmp_path / "agentrail.db", connect=connections)
    async with open_desk(scripted("one", "two"), journal=journal, limits=CALM) as desk:
        await chat(desk.ann, "hi", session="trip")
        writer = connections.opened[0]
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 1}")
        body = {"message": "word " * 20_000}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(desk.ann.post, "/v1/sessions/trip/prompt", json=body))
            await until(lambda: desk.serving.supervisor.figures().is_failing)
            assert await ready(desk) == (503, OK | {"journal": False})
            writer.execute("PRAGMA max_page_count = 1000000")


async def test_a_full_disk() -> None:
    async with open_desk(scripted("one"), limits=CALM.but(free_bytes=2**62)) as desk:
        assert await ready(desk) == (503, OK | {"disk": False})


async def test_a_loop_that_was_blocked() -> None:
    async with open_desk(scripted("one"), limits=HostLimits(loop_lag_seconds=0.1)) as desk:
        await wait_all_tasks_blocked()
        time.sleep(0.7)  # noqa: ASYNC251 - that is what is wrong
        await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert await ready(desk) == (503, OK | {"loop": False})


async def test_the_lag_of_the_loop_is_that_of_the_last_ten_seconds(mock_clock: MockClock) -> None:
    lag = LoopLag()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lag.measure)
        await wait_all_tasks_blocked()
        mock_clock.jump(3.0)
        await wait_all_tasks_blocked()
        assert lag.worst == 2.5
        for _ in range(19):
            mock_clock.jump(0.5)
            await wait_all_tasks_blocked()
        assert lag.worst == 2.5
        mock_clock.jump(0.5)
        await wait_all_tasks_blocked()
        assert lag.worst == 0.0
        nursery.cancel_scope.cancel()


# Plugins


class Gate(HostPlugin):
    """Fails if a request says so."""

    critical = True

    def intercept(self, request: Request) -> HandledResponse | None:
        if request.message == "fail":
            raise OSError
        return None


class LosesItsTask(HostPlugin):
    """Starts a task that fails at once."""

    def start(self, host: PluginHost) -> None:
        async def fails() -> None:
            await trio.lowlevel.checkpoint()
            raise OSError

        host.start_task(fails)


class Harmless(Gate):
    critical = False


@pytest.mark.parametrize(("plugin", "is_well"), [(Gate(), False), (Harmless(), True)], ids=["critical", "other"])
async def test_a_plugin_that_fails(plugin: HostPlugin, is_well: bool) -> None:
    async with open_desk(scripted("one"), [plugin], limits=CALM) as desk:
        await chat(desk.ann, "fail")
        assert await ready(desk) == ((200 if is_well else 503), OK | {"plugins": is_well})


@pytest.mark.parametrize("critical", [True, False])
async def test_a_plugin_that_has_lost_its_task(critical: bool) -> None:
    plugin = type("Loses", (LosesItsTask,), {"critical": critical})()
    async with open_desk(scripted("one"), [plugin], limits=CALM) as desk:
        await wait_all_tasks_blocked()
        assert await ready(desk) == ((503 if critical else 200), OK | {"plugins": not critical})


async def test_a_critical_plugin_is_well_again_when_it_rules_or_after_a_while(autojump_clock: object) -> None:
    del autojump_clock
    row = HostPluginRow([Gate()])
    context = RequestContext("chat", "acme", "ann", "ann.trip", "desk", "r-1")

    async def ask(message: str) -> None:
        await row.intercept(Request(message, (), (), "chat", Identity("acme", "ann"), context))

    for again in ("rules", "rests"):
        with pytest.raises(OutsideError, check=coded("plugin-failed")):
            await ask("fail")
        assert not row.is_well(trio.current_time())
        if again == "rules":
            await ask("hi")
        else:
            assert not row.is_well(trio.current_time() + FAILING)
            await trio.sleep(FAILING + 1)
        assert row.is_well(trio.current_time())


# Checks of a program


async def raises() -> None:
    await trio.lowlevel.checkpoint()
    raise OSError


async def hangs() -> None:
    with trio.move_on_after(3600, shield=True):
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("check", "is_ok"),
    [(lambda: None, True), (lambda: True, True), (lambda: False, False), (raises, False), (trio.sleep_forever, False)],
    ids=["nothing", "true", "false", "raises", "hangs"],
)
async def test_a_check_of_the_program(check: HostCheck, is_ok: bool) -> None:
    limits = LIMITS.but(check_seconds=1.0) if check is trio.sleep_forever else CALM
    async with open_desk(scripted("one"), checks={"queue": check}, limits=limits) as desk:
        assert await ready(desk) == ((200 if is_ok else 503), OK | {"queue": is_ok})


async def test_a_check_that_resists_is_bounded_and_not_begun_again(autojump_clock: object) -> None:
    del autojump_clock
    begun = list[float]()

    async def check() -> None:
        begun.append(trio.current_time())
        await hangs()

    async with trio.open_nursery() as nursery:
        probe = Probe("queue", check, nursery, 2.0)
        for _ in range(3):
            check_view = await probe.look()
            assert (check_view.ok, check_view.ms) == (False, 2000)
            await trio.sleep(FRESH)
        assert begun == [0.0]


async def test_many_who_ask_at_once_are_told_the_same(autojump_clock: object) -> None:
    del autojump_clock
    begun = list[float]()

    async def check() -> None:
        begun.append(trio.current_time())
        await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        probe = Probe("queue", check, nursery, 2.0)
        outcomes = list[bool]()

        async def look() -> None:
            outcomes.append((await probe.look()).ok)

        async with trio.open_nursery() as askers:
            for _ in range(50):
                askers.start_soon(look)
        assert (outcomes, begun) == ([True] * 50, [0.0])
        await trio.sleep(FRESH / 2)
        await look()
        assert begun == [0.0]
        await trio.sleep(FRESH)
        await look()
        assert len(begun) == 2


@pytest.mark.parametrize(
    "checks", [{"journal": raises}, {"Queue": raises}, {"": raises}, {"queue": 5}, [raises], {5: raises}], ids=range(6)
)
def test_what_is_no_check_is_refused(checks: object) -> None:
    with pytest.raises(WrongType, match="checks"):
        Host([Profile("desk", scripted("one"))], checks=checks)  # type: ignore[arg-type]
