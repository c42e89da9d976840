import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest
import trio

from agentrail.adapters.processes import LAUNCHER, SAFE_PATH
from agentrail.adapters.sandboxes import bubblewrap, outward_network, own_network
from agentrail.adapters.sandboxes.bubblewrap import Guards, find_bwrap
from agentrail.adapters.sandboxes.outward_network import CONNECTORS
from agentrail.adapters.sandboxes.own_network import GATEWAY, RESOLVER
from agentrail.errors import CommandRefused, SandboxMissing
from agentrail.sandboxes import BubblewrapSandbox, Command, Execution, Limits
from tests.patience import PATIENCE
from tests.sandboxes.kinds import needs_bubblewrap, needs_connector

Network: TypeAlias = bool | Literal["outward"]


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


def size(folder: Path) -> int:
    return sum(place.stat().st_size for place in folder.iterdir())


async def run(root: Path, line: str, limits: Limits | None = None, *, network: Network = False) -> Execution:
    sandbox = BubblewrapSandbox(root, limits=limits, network=network)
    return await sandbox.execute(Command(line, timeout=10, merge=True))


async def test_without_the_program_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "SAFE_PATH", str(tmp_path))
    sandbox = BubblewrapSandbox(tmp_path)
    with pytest.raises(
        SandboxMissing, match=f"nothing was run, because `bwrap` cannot confine it: not found in {tmp_path};"
    ):
        await sandbox.execute(Command("touch canary"))
    assert not await sandbox.exists("canary")


@pytest.mark.parametrize("root", ["/", "/usr", "/etc", "/proc"])
async def test_a_root_that_holds_the_system_confines_nothing_so_nothing_is_run(root: str) -> None:
    with pytest.raises(CommandRefused, match="holds the system"):
        await BubblewrapSandbox(root).execute(Command(":"))


@pytest.mark.long
async def test_where_the_program_does_not_work_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n", encoding="ascii")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setattr(bubblewrap, "SAFE_PATH", str(tmp_path))
    with pytest.raises(SandboxMissing, match="no namespaces for you"):
        await BubblewrapSandbox(tmp_path).execute(Command("touch canary"))


ESCAPES = (
    "echo x > {outside}/canary",
    "cat {outside}/secret",
    "ls {outside}/secret",
    "ln -s {outside} l; echo x > l/canary",
    "ln -s {outside}/secret l; cat l",
    "ln {outside}/secret hard",
    "touch /usr/canary",
    "touch /etc/canary /bin/canary",
    "mount -o remount,rw /usr && touch /usr/canary",
    "mkdir .git && echo x > .git/config",
    "echo x > .git/config",
    "rmdir .git && mkdir .git",
    "mv .git x && mkdir .git",
    "rm -rf .git; mkdir -p .git/hooks && touch .git/hooks/pre-commit",
    "echo x > .envrc",
    "mkdir .vscode/x",
    "unshare -Ur id",
    "unshare -m id",
    "nsenter -t 1 -m ls {outside}/secret",
    "chroot / id",
    "mknod d c 1 3 && cat d",
    "cat /dev/vda /dev/sda /dev/mem",
    "cat /etc/shadow",
    "ls /root /home/*/.ssh /var/run /run",
    "cat /proc/1/root{outside}/secret",
    "exec 3>/proc/sys/kernel/core_pattern",  # opened only: nothing is written if this test fails
    "exec 3>/proc/sys/kernel/panic",
    "exec 3>/proc/sysrq-trigger",
    "exec 3>/proc/self/oom_score_adj",
    "kill -9 {pid}",
    "ls /proc/{pid}",
    "python3 -c 'import os; os.kill({pid}, 15)'",
    "su -c id",
    "sudo -n id",
)


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize("line", ESCAPES)
async def test_a_command_does_not_get_out(tmp_path: Path, line: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("the secret", encoding="ascii")
    done = await run(root, line.format(outside=outside, pid=os.getpid()))
    assert done.exit_code != 0, done.stdout.text
    assert "the secret" not in done.stdout.text
    assert names(outside) == ["secret"]
    assert ".git" not in names(root)
    assert "canary" not in names(Path("/usr"))


@pytest.mark.long
@needs_bubblewrap
async def test_the_network_is_there_only_if_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" not in (await run(tmp_path, line)).stdout.text
        assert "connected" in (await run(tmp_path, line, network=True)).stdout.text


NETWORKS = [
    pytest.param(False, marks=needs_bubblewrap, id="none"),
    pytest.param("outward", marks=needs_connector, id="outward"),
]


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
async def test_an_abstract_socket_of_the_host_is_out_of_reach(tmp_path: Path, network: Network) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0agentrail-test-{os.getpid()}")
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0agentrail-test-{os.getpid()}')"
        line = f'/usr/bin/env python3 -c "{code}" || echo refused'
        assert "refused" in (await run(tmp_path, line, network=network)).stdout.text
        assert "refused" not in (await run(tmp_path, line, network=True)).stdout.text


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
async def test_loopback_ports_of_the_host_are_out_of_reach(tmp_path: Path, network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in ("127.0.0.1", "127.0.0.2", GATEWAY, RESOLVER, "localhost"):
            line = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}'"
            await run(tmp_path, line, network=network)
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


def address_of_host() -> str:
    """Return an address of this machine that is no loopback one; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect(("192.0.2.254", 9))  # sends nothing
        except OSError:
            return ""
        return str(any_socket.getsockname()[0])


@pytest.mark.long
@needs_connector
@pytest.mark.skipif(not address_of_host(), reason="this machine has no network: what goes outward was not tried")
async def test_what_goes_outward_arrives(tmp_path: Path) -> None:
    with socket.create_server((address_of_host(), 0)) as server:
        line = "exec 3<>/dev/tcp/{}/{} && echo hello >&3".format(*server.getsockname())
        assert not (await run(tmp_path, line, network="outward")).exit_code
        server.settimeout(PATIENCE)
        with server.accept()[0] as connection:
            assert connection.recv(100) == b"hello\n"
        assert "hello" not in (await run(tmp_path, line)).stdout.text


PYTHON: Final = ("/usr/bin/python3", "-I", "-S", "-c")


def launched(command: Sequence[str], user: int | None) -> subprocess.CompletedProcess[str]:
    """Run *command* by the launcher, which ends what is left of it, such as `pasta`."""
    launcher = Path(LAUNCHER).read_text()  # that user may not be able to read where this is
    report, reported = os.pipe()
    orders, given = os.pipe()
    folder = os.open("/", os.O_RDONLY)
    try:
        return subprocess.run(  # noqa: S603 - ours
            [*PYTHON, launcher, str(reported), str(folder), "", "", *command],
            capture_output=True,
            check=False,
            stdin=orders,
            pass_fds=(reported, folder),
            user=user,
            group=user,
            cwd="/",
            text=True,
        )
    finally:
        for number in (report, reported, orders, given, folder):
            os.close(number)


@pytest.mark.long
@pytest.mark.parametrize("name", CONNECTORS)
@needs_bubblewrap
def test_each_program_connects_and_leads_to_no_loopback_port(name: str) -> None:
    program = shutil.which(name, path=SAFE_PATH)
    if program is None:
        pytest.skip(f"{name} is not installed (`make sandbox-tools`): nothing was tried with it")
    script = Path(own_network.__file__).read_text()  # that user may not be able to read where this is
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"cat /proc/net/route; timeout 2 bash -c 'exec 3<>/dev/tcp/{GATEWAY}/{port}' 2>/dev/null"
        confined = [
            find_bwrap(),
            "--unshare-all",
            "--unshare-user",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        command = [*PYTHON, script, program, *confined, "--", "/bin/sh", "-c", line]
        # for root, `pasta` gives its rights away and cannot connect anything
        result = launched(command, None if os.getuid() else 65_534)
        assert len(result.stdout.splitlines()) > 1, result.stderr
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


async def test_without_a_program_that_connects_it_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: "/bin/true")
    monkeypatch.setattr(bubblewrap, "check_bwrap", lambda _: None)
    monkeypatch.setattr(outward_network, "SAFE_PATH", str(tmp_path))
    with pytest.raises(SandboxMissing, match=f"slirp4netns or pasta.*slirp4netns is not in {tmp_path}; pasta is not"):
        await BubblewrapSandbox(tmp_path, network="outward").execute(Command("touch canary"))
    assert names(tmp_path) == []


@pytest.mark.long
@needs_bubblewrap
async def test_what_exists_and_is_protected_can_be_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref", encoding="ascii")
    (tmp_path / ".bashrc").write_text("old", encoding="ascii")
    done = await run(tmp_path, "cat .git/HEAD; echo x > .git/HEAD; echo x > .bashrc; mv .bashrc y; rm .bashrc")
    assert done.stdout.text.startswith("ref")
    assert (tmp_path / ".git" / "HEAD").read_text(encoding="ascii") == "ref"
    assert (tmp_path / ".bashrc").read_text(encoding="ascii") == "old"
    assert names(tmp_path) == [".bashrc", ".git"]


@pytest.mark.long
@needs_bubblewrap
async def test_a_name_that_counts_in_a_home_alone_can_be_made_elsewhere(tmp_path: Path) -> None:
    assert (await run(tmp_path, "echo x > .bashrc")).exit_code == 0
    assert names(tmp_path) == [".bashrc"]


def test_what_one_sandbox_has_created_stays_while_another_one_of_the_folder_needs_it(tmp_path: Path) -> None:
    first, second = Guards(str(tmp_path), (".envrc",)), Guards(str(tmp_path), (".envrc", ".git"))
    assert (first.hold(), second.hold()) == ([".envrc"], [".envrc", ".git"])
    first.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".envrc", ".git"]
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@needs_bubblewrap
async def test_two_commands_at_once_keep_their_guards(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox(tmp_path)
    results: list[Execution] = []

    async def one(line: str) -> None:
        results.append(await sandbox.execute(Command(line)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "true")
        nursery.start_soon(one, "sleep 0.4; mkdir -p .git/hooks")
    assert sorted(done.exit_code for done in results) == [0, 1]
    assert names(tmp_path) == []


BOMBS = [
    ("head -c 200000000 /dev/zero > big", Limits(file_size=1_000_000)),
    ("head -c 200000000 /dev/zero > /tmp/big", Limits(scratch=1_000_000)),
    ("head -c 200000000 /dev/zero | tail -n 1 | wc -c | grep 200000000", Limits(memory=50_000_000)),
    ("while :; do :; done", Limits(cpu_seconds=1)),
    ("ulimit -d unlimited", None),
]


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize(("line", "limits"), BOMBS)
async def test_a_limit_holds(tmp_path: Path, line: str, limits: Limits | None) -> None:
    done = await run(tmp_path, line, limits)
    assert done.exit_code != 0
    assert not done.timed_out
    assert size(tmp_path) <= 1_000_000


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize("side", [-1, 0, 1])
async def test_a_file_may_have_as_many_bytes_as_its_limit_and_no_more(tmp_path: Path, side: int) -> None:
    done = await run(tmp_path, f"head -c {10_000 + side} /dev/zero > file", Limits(file_size=10_000))
    assert (done.exit_code == 0) is (side <= 0)
    assert (tmp_path / "file").stat().st_size == min(10_000, 10_000 + side)


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize("side", [-1, 0, 1])
async def test_as_many_files_may_be_open_as_the_limit_says(tmp_path: Path, side: int) -> None:
    """Numbers of open files begin at 0."""
    number = 50 + side
    done = await run(tmp_path, f"exec {number - 1}</dev/null", Limits(open_files=50))
    assert (done.exit_code == 0) is (side <= 0), done.stdout.text


@needs_bubblewrap
@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel does not count the processes of root")
async def test_the_number_of_processes_is_limited(tmp_path: Path) -> None:
    done = await run(tmp_path, "for i in $(seq 60); do sleep 5 & done; wait", Limits(processes=20))
    assert done.exit_code != 0
