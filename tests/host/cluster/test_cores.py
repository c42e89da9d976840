"""`agentrail serve --cores`: several processes at one port are one host, whatever ends one of them."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from agentrail import connect
from agentrail.adapters.system import core_count
from agentrail.cli.command import main
from agentrail.cli.command_options import cores_named
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.workers.worker_link import VARIABLE, WorkerLink, reserve_port
from agentrail.cli.host.workers.worker_supervisor import FIRST_PAUSE, MOST_ENDS, PERIOD, WorkerProcess
from agentrail.host.served_file import NothingToServeError
from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.host.commanded import SERVE, Served, commanded
from tests.host.deployed.client import Client
from tests.host.deployed.crowd import checked, come_to_rest, deployment
from tests.host.deployed.line_client import LineClient
from tests.host.hosted import KEYS
from tests.host.test_serving_tls import Files
from tests.patience import PATIENCE

CORES_DESK = Path(__file__).with_name("cores_desk.py")
ROUNDS = 3
LONGEST = 0.3


def pids(served: Served) -> list[int]:
    """Return the processes that the served one has started."""
    threads = Path(f"/proc/{served.process.pid}/task").iterdir()
    return sorted(int(word) for thread in threads for word in (thread / "children").read_text().split())


def process_text(pid: int) -> str:
    """Return what everybody can see of a process: arguments, and the environment at its start."""
    return "".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "environ"))


def is_alive(pid: int) -> bool:
    """Whether a process has not ended; one of which nobody has taken the status has."""
    try:
        return not re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return False


async def gone(former: list[int]) -> None:
    """Wait until processes have ended."""
    with trio.fail_after(PATIENCE):
        while any(is_alive(pid) for pid in former):  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(0.02)


@asynccontextmanager
async def cores(folder: Path, url: str, *options: str) -> AsyncGenerator[Served]:
    """Serve the demo agent by two processes, which have ended at the end."""
    command = [*SERVE, "--cores", "2", "--journal", url, *options]
    async with commanded(command, folder) as served:
        started = pids(served)
        assert len(started) == 2
        yield served
    await gone(started)


@pytest.mark.long
@needs_postgres
async def test_two_processes_are_one_host_and_one_that_is_killed_comes_back(tmp_path: Path, url: str) -> None:
    trust = Files(tmp_path).client
    with trio.fail_after(4 * PATIENCE):
        async with cores(tmp_path, url, "--port", "0", "--tls", "cert.pem", "key.pem") as served:
            async with (
                connect(served.url, served.token, tls=trust) as first,
                connect(served.url, served.token, tls=trust) as second,
            ):
                names = [f"s{number}" for number in range(4)]
                for name, supervisor in zip(names, (first, second, first, second), strict=True):
                    await (await supervisor.open(name, "demo")).ask("hello")
                former = pids(served)
                os.kill(former[0], signal.SIGKILL)
                for name in names:  # whoever has them now: the client notices nothing
                    await (await second.open(name, "demo")).ask("hello again")
                tree = await first.tree()  # it also names the process that is dead until that is there again
                running = [child for child in tree.children if child.state != "down"]
                assert {child.name.rpartition(".")[2] for child in running} == set(names)
            assert former[1] in pids(served)
            served.process.terminate()
            assert await served.process.wait() == 0
    assert "process 1 has been ended by SIGKILL, and is started again" in served.log
    assert "[1] agentrail.host: serving at" in served.log
    assert "[2] agentrail.host: serving at" in served.log


@pytest.mark.long
@needs_postgres
async def test_no_process_outlives_the_one_that_has_started_them(tmp_path: Path, url: str) -> None:
    """It is killed, and can tell them nothing; the secrets that they had are nowhere to be read."""
    socket_path = tmp_path / "socket"
    async with cores(tmp_path, url, "--unix", str(socket_path), "--log-form", "json") as served:
        started = pids(served)
        for text in map(process_text, started):
            (value,) = re.findall(rf"{VARIABLE}=([^\0]*)", text)
            assert value.isdigit()
            assert served.token not in text
        served.process.kill()
        await served.process.wait()
        await gone(started)
    assert '"process": 1' in served.log
    assert served.token not in served.log


@pytest.mark.campaign
@pytest.mark.long
@needs_postgres
async def test_processes_share_a_socket_that_was_given(tmp_path: Path, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        command = [*SERVE, "--cores", "2", "--journal", url, "--descriptor", str(number)]
        async with commanded(command, tmp_path, descriptors=[number]) as served:
            async with connect(served.url, served.token) as supervisor:
                await (await supervisor.open("s", "demo")).ask("hello")
            served.process.send_signal(signal.SIGHUP)
            served.process.send_signal(signal.SIGINT)
            assert await served.process.wait() == 0
    assert "agentrail.workers: SIGINT: all processes are told to end" in served.log


@pytest.mark.long
async def test_an_error_at_the_start_is_shown_once_and_ends_all(tmp_path: Path) -> None:
    command = [*SERVE, "--cores", "2", "--port", "0", "--journal", "kept.db"]
    done = await trio.run_process(command, cwd=tmp_path, capture_stderr=True, capture_stdout=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.endswith("so it has to be one that they can share; give `--journal postgresql://…`")


def test_a_process_that_ends_again_and_again_is_given_up() -> None:
    with reserve_port() as address:
        worker = WorkerProcess(1, address)
        pauses = [worker.note_end(0.0) for _ in range(MOST_ENDS)]
        assert pauses == [0.0, *[FIRST_PAUSE * 2**number for number in range(MOST_ENDS - 1)]]
        assert worker.note_end(1.0) is None
        assert worker.note_end(PERIOD + 2) == 0.0


def test_nobody_else_is_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("no number", "-1", "99999"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(NothingToServeError, match="leave it out"):
            WorkerLink.inherited()
        assert VARIABLE not in os.environ
    assert WorkerLink.inherited() is None


def test_as_many_processes_as_there_are_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert cores_named("3") == 3
    assert cores_named("all") >= 1
    for text in ("0", "-1", "many", "1.5"):
        assert main(["serve", "--cores", text]) == WRONG_USAGE
        assert f"{text!r} is no number of processes; give one from 1 on, or `all`" in capsys.readouterr().err


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    assert (core_count(), cores_named("all")) == (3, 3)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert (core_count(), cores_named("all")) == (7, 7)


@pytest.mark.campaign
@pytest.mark.long
@needs_postgres
async def test_a_process_that_is_killed_under_load_loses_and_doubles_nothing(tmp_path: Path, url: str) -> None:
    chance = Random("cores")
    kinds = (Client, LineClient, Client, LineClient)
    async with deployment(tmp_path / "desk") as hosts:
        number = hosts.listener.fileno()
        command = [*SERVE, str(CORES_DESK), "--cores", "2", "--descriptor", str(number)]
        env = {**hosts.env, "JOURNAL": url}
        serving = commanded(command, hosts.folder, descriptors=[number], env=env)
        async with serving as served, trio.open_nursery() as nursery:
            clients = [kind(hosts.port, KEYS["ann"], f"s{index}", chance, LONGEST) for index, kind in enumerate(kinds)]
            for client in clients:
                nursery.start_soon(client.use)
            for client in clients:
                await client.began()
            for _ in range(ROUNDS):
                await trio.sleep(chance.uniform(0.2, 1.0))
                os.kill(chance.choice(pids(served)), signal.SIGKILL)
                counts = [len(client.acknowledged) for client in clients]
                with trio.fail_after(PATIENCE):
                    for client, count in zip(clients, counts, strict=True):
                        while len(client.acknowledged) < count + 2:  # noqa: ASYNC110 - no event tells of it
                            await trio.sleep(0.05)
            await come_to_rest(clients)
        figures = await checked(hosts, clients, PostgresJournal(url))
    print(f"\n{dict(figures)}")  # noqa: T201
    assert figures["acknowledged"] > ROUNDS
    assert figures["refused"] == 0
