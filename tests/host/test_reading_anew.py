"""SIGHUP at `agentrail serve`: a real process, certificates that openssl makes, and a terminal that goes away."""

from __future__ import annotations

import os
import pty
import signal
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Final

import httpx
import pytest
import trio

from tests.host.commanded import SERVE, Served, commanded
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

TLS: Final = (*SERVE, "--port", "0", "--tls", "cert.pem", "key.pem")
ASKING: Final = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


async def certified(folder: Path, serial: int) -> None:
    """Make a new certificate and its key, under the names that are served."""
    files = ("-out", "new-cert.pem", "-keyout", "new-key.pem")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    about = ("-subj", "/CN=127.0.0.1", "-days", "1", "-set_serial", str(serial))
    await trio.run_process([*command, *files, *about], cwd=folder, capture_stderr=True)
    (folder / "new-key.pem").rename(folder / "key.pem")
    (folder / "new-cert.pem").rename(folder / "cert.pem")


@asynccontextmanager
async def connected(process: Served) -> AsyncGenerator[trio.SSLStream[trio.SocketStream]]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = await trio.open_tcp_stream("127.0.0.1", int(process.url.rpartition(":")[2]))
    async with trio.SSLStream(stream, context, server_hostname="127.0.0.1", https_compatible=True) as secured:
        yield secured


async def answered(stream: trio.SSLStream[trio.SocketStream]) -> bool:
    await stream.send_all(ASKING)
    got = b""
    while b"\r\n\r\n" not in got:
        piece = await stream.receive_some()
        assert piece, got
        got += piece
    return got.startswith(b"HTTP/1.1 200 ")


async def serial_of(process: Served) -> int:
    """Return the serial number of the certificate that a new connection gets, as openssl tells it."""
    async with connected(process) as stream:
        assert await answered(stream)
        der = stream.getpeercert(binary_form=True)
    command = ("openssl", "x509", "-inform", "DER", "-noout", "-serial")
    done = await trio.run_process(command, stdin=der, capture_stdout=True)
    return int(done.stdout.decode().strip().removeprefix("serial="), 16)


async def logged(process: Served, text: str, times: int = 1) -> None:
    while process.log.count(text) < times:  # noqa: ASYNC110 - another process writes it
        await trio.sleep(0.01)


async def test_new_connections_get_the_new_certificate_and_open_ones_live_on(tmp_path: Path) -> None:
    await certified(tmp_path, 1)
    with trio.fail_after(60):
        async with commanded(TLS, tmp_path) as process, connected(process) as earlier:
            assert await answered(earlier)
            assert await serial_of(process) == 1
            await certified(tmp_path, 2)
            assert await serial_of(process) == 1, "files that were replaced are not read before the signal"
            for serial in (2, 3):
                await certified(tmp_path, serial)
                process.process.send_signal(signal.SIGHUP)
                await logged(
                    process, "SIGHUP: the certificate and key are read anew; new connections use them", serial - 1
                )
                assert await serial_of(process) == serial
                assert await answered(earlier)
            process.process.terminate()
            assert await process.process.wait() == 0


BROKEN: Final = {
    "no certificate": ("cert.pem", "nothing\n", "cert.pem has no certificate; give the certificate with its chain"),
    "half a key": ("key.pem", "-----BEGIN PRIVATE KEY-----\nMIGH\n", "cert.pem and key.pem cannot be used: "),
    "no key": ("key.pem", None, "key.pem cannot be read: No such file or directory; give a file that the user of"),
}


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "text", "problem"), BROKEN.values(), ids=BROKEN)
async def test_files_that_cannot_be_used_keep_the_earlier_ones(
    name: str, text: str | None, problem: str, tmp_path: Path
) -> None:
    await certified(tmp_path, 1)
    with trio.fail_after(60):
        async with commanded(TLS, tmp_path) as process:
            await certified(tmp_path, 2)
            if text is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_text(text, encoding="utf-8")
            process.process.send_signal(signal.SIGHUP)
            await logged(
                process, "SIGHUP: the earlier certificate and key stay in use, because the new ones are unfit: "
            )
            assert problem in process.log
            assert "Traceback" not in process.log
            assert await serial_of(process) == 1
            await certified(tmp_path, 3)
            process.process.send_signal(signal.SIGHUP)
            await logged(process, "SIGHUP: the certificate and key are read anew")
            assert await serial_of(process) == 3
            process.process.terminate()
            assert await process.process.wait() == 0


async def made_key(folder: Path) -> str:
    done = await trio.run_process(
        [*SERVE, "keys", "make", "keys.txt", "acme", "ann"], cwd=folder, capture_stdout=True, capture_stderr=True
    )
    return next(word for word in done.stdout.decode().split() if word.startswith("ak_"))


@pytest.mark.campaign
async def test_keys_are_read_anew_even_if_the_file_does_not_look_changed(tmp_path: Path) -> None:
    key, file = await made_key(tmp_path), tmp_path / "keys.txt"
    with trio.fail_after(60):
        async with commanded([*SERVE, "--port", "0", "--keys", "keys.txt"], tmp_path) as process:
            async with httpx.AsyncClient(base_url=process.url, trust_env=False, timeout=PATIENCE) as client:
                ask = partial(client.get, "/v1/sessions", headers={"authorization": f"Bearer {key}"})
                assert (await ask()).status_code == 200
                stat, lines = file.stat(), file.read_text(encoding="utf-8")
                file.write_text("#" * stat.st_size, encoding="utf-8")
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
                process.process.send_signal(signal.SIGHUP)
                await logged(process, "SIGHUP: the keys are read anew")
                assert (await ask()).status_code == 401
                assert process.log.count("SIGHUP") == 1
                file.write_text(lines, encoding="utf-8")
                process.process.send_signal(signal.SIGHUP)
                await logged(process, "SIGHUP: the keys are read anew", 2)
                assert (await ask()).status_code == 200
                for times in (1, 2):
                    file.write_text(f"{lines}{key}\n", encoding="utf-8")
                    process.process.send_signal(signal.SIGHUP)
                    await logged(
                        process, "the earlier keys stay in use: cannot take the keys of keys.txt: line 2 has", times
                    )
                assert (await ask()).status_code == 200
                file.unlink()
                process.process.send_signal(signal.SIGHUP)
                await logged(process, "no key is taken: cannot take the keys of keys.txt: there is no such file")
                assert (await ask()).status_code == 401
                assert process.log.count("SIGHUP: the keys are read anew") == 2
                assert key not in process.log
            process.process.terminate()
            assert await process.process.wait() == 0


@pytest.mark.campaign
async def test_without_anything_to_read_the_host_goes_on(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with commanded([*SERVE, "--port", "0"], tmp_path) as process:
            process.process.send_signal(signal.SIGHUP)
            await logged(process, "SIGHUP: there is neither a certificate nor a file of keys to read anew")
            process.process.terminate()
            assert await process.process.wait() == 0


STARTING: Final = {
    "while it is imported": """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "agentrail.cli.host.serve":
            os.kill(os.getpid(), signal.SIGHUP)
sys.meta_path.insert(0, Finder())
""",
    "while it loads its file": """
import os, signal
os.kill(os.getpid(), signal.SIGHUP)
""",
    "before it listens": """
import os, signal
from agentrail import SessionSpec
from agentrail.host import Host, Profile
class Slow(Host):
    def serving(self, *args, **options):
        os.kill(os.getpid(), signal.SIGHUP)
        return super().serving(*args, **options)
host = Slow([Profile("desk", SessionSpec(model="demo"))])
""",
}
"""Code that sends SIGHUP to its process, by when that is."""

COMMAND: Final = "import sys; from agentrail.cli.command import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("when", STARTING)
async def test_a_host_that_starts_notes_the_signal(when: str, tmp_path: Path) -> None:
    specified = (
        "" if "Host" in STARTING[when] else "from agentrail import SessionSpec\nspec = SessionSpec(model='demo')\n"
    )
    is_first = "Finder" in STARTING[when]
    (tmp_path / "app.py").write_text(specified if is_first else specified + STARTING[when], encoding="utf-8")
    command = [SERVE[0], "-c", STARTING[when] * is_first + COMMAND, "serve", "app.py", "--port", "0"]
    with trio.fail_after(60):
        async with commanded(command, tmp_path) as process:
            await logged(process, "SIGHUP: there is neither a certificate nor a file of keys to read anew")
            process.process.terminate()
            assert await process.process.wait() == 0


@pytest.mark.campaign
async def test_a_terminal_that_goes_away_ends_a_host_that_starts(tmp_path: Path) -> None:
    (tmp_path / "at_a_terminal.py").write_text(AT_A_TERMINAL, encoding="utf-8")
    (tmp_path / "app.py").write_text("import time\nprint('starting', flush=True)\ntime.sleep(300)\n", encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [SERVE[0], "at_a_terminal.py", str(theirs), *SERVE, "app.py", "--port", "0"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, cwd=tmp_path, stdout=PIPE, check=False, pass_fds=[theirs])
            process: trio.Process = await nursery.start(run, command)
            assert process.stdout is not None
            os.close(theirs)
            assert await process.stdout.receive_some()  # it is there, and loads its file
            os.close(ours)
            assert await process.wait() == -signal.SIGHUP


async def test_a_signal_that_is_ignored_stays_ignored_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import signal\nfrom agentrail import SessionSpec\nspec = SessionSpec(model='demo')\n"
        "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN\n",
        encoding="utf-8",
    )
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with trio.fail_after(60):
        command = [SERVE[0], "-c", ignoring + COMMAND, "serve", "app.py", "--port", "0"]
        async with commanded(command, tmp_path) as process:
            process.process.send_signal(signal.SIGHUP)
            process.process.terminate()
            assert await process.process.wait() == 0
            assert "SIGHUP" not in process.log


AT_A_TERMINAL: Final = """import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_a_terminal_that_goes_away_ends_the_host(tmp_path: Path) -> None:
    (tmp_path / "at_a_terminal.py").write_text(AT_A_TERMINAL, encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [SERVE[0], "at_a_terminal.py", str(theirs), *SERVE, "--port", "0"]
    with trio.fail_after(60):
        async with commanded(command, tmp_path, descriptors=[theirs]) as process:
            os.close(theirs)
            process.process.send_signal(signal.SIGHUP)
            await logged(process, "SIGHUP: there is neither")
            os.close(ours)
            assert await process.process.wait() == 0
            assert "SIGHUP: the program stops within 40 s" in process.log
