"""A PostgreSQL server of the tests: Debian's, started by them as an unprivileged user in a temporary folder."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.free_port import free_port

DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
"""The folders with programs of PostgreSQL, which Debian puts on no path."""

POSTGRES = shutil.which("postgres") or next((str(folder / "postgres") for folder in reversed(DEBIAN)), None)
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

needs_postgres = pytest.mark.skipif(POSTGRES is None, reason="run `make database-servers` first: no PostgreSQL here")
needs_pgbouncer = pytest.mark.skipif(
    POSTGRES is None or PGBOUNCER is None, reason="run `make database-servers` first: no PgBouncer here"
)

USER = "nobody" if os.getuid() == 0 else None
"""Who runs the servers, if the tests run as root: PostgreSQL refuses root."""

PATIENCE = 30.0


def program(name: str) -> str:
    """Return the path of a program that comes with the server."""
    return str(Path(str(POSTGRES)).resolve().with_name(name))


class Program:
    """A server, its folder and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {"LC_ALL": "C"}
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, *command: str) -> None:
        subprocess.run(  # noqa: S603 - the programs above
            command, check=True, user=USER, cwd=self.folder, stdout=subprocess.DEVNULL, env=self.environment
        )

    def launch(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the programs above
                command, user=USER, cwd=self.folder, stdout=log, stderr=log, env={"LC_ALL": "C"}, start_new_session=True
            )
        end = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def answers(self) -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait()


class PostgresServer(Program):
    """PostgreSQL with the settings that it has, `fsync` too."""

    def __init__(self, folder: Path, *settings: str, data: str = "data") -> None:
        super().__init__(folder)
        self.settings = settings
        self.data = data
        self.url = f"postgresql://tester:secret%40pass@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        (self.folder / "password").write_text("secret@pass")
        self.run(
            program("initdb"),
            "--no-sync",
            "--pgdata=data",
            "--username=tester",
            "--pwfile=password",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-instructions",
        )

    def start(self) -> None:
        self.launch(
            str(POSTGRES),
            "-D",
            self.data,
            "-p",
            str(self.port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"unix_socket_directories={self.folder}",
            "-c",
            "max_connections=60",
            "-c",
            "shared_buffers=32MB",
            *[word for setting in self.settings for word in ("-c", setting)],
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """Kill the server and all its processes at once, as a power cut would."""
        process, self.process = self.process, None
        assert process is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + PATIENCE
        while any(map(_runs, children)) and time.monotonic() < end:  # the next start wants their shared memory
            time.sleep(0.01)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class PgBouncer(Program):
    """A pool in transaction mode, in front of *server*."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        super().__init__(folder)
        self.url = server.url.replace(str(server.port), str(self.port))
        users = '"tester" "secret@pass"\n'
        (folder / "users").write_text(users)
        settings: Sequence[str] = (
            "[databases]",
            f"* = host=127.0.0.1 port={server.port}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {self.port}",
            "auth_type = scram-sha-256",
            "auth_file = users",
            "pool_mode = transaction",
            "default_pool_size = 3",
            "unix_socket_dir =",
        )
        (folder / "pgbouncer.ini").write_text("\n".join(settings))

    def start(self) -> None:
        self.launch(str(PGBOUNCER), "pgbouncer.ini")


@contextmanager
def folder_of_servers() -> Iterator[Path]:
    """Give a folder that the user of the servers owns; short, because the path of a socket is."""
    with TemporaryDirectory(prefix="pg") as folder:
        if USER is not None:
            record = pwd.getpwnam(USER)
            os.chown(folder, record.pw_uid, record.pw_gid)
        yield Path(folder)
