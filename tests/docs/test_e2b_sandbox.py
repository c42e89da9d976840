"""The sandbox of E2B in the examples, against an imitation of the interface that E2B documents."""

import base64
import json
import os
import signal
import struct
import subprocess
import threading
from collections.abc import Iterator
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.python_file import load
from agentrail.errors import BadEdit, CommandRefused, FileMissing, PathRefused
from agentrail.sandboxes import Command, Entry, Kind, Search
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.docs.sources import ROOT
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

KEY, TOKEN, HOME = "e2b_key", "of-the-machine", "/home/user"


class Imitation(ThreadingHTTPServer):
    """Machines that are folders of this one, and whose commands run here."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def here(self, text: str) -> str:
        return text.replace(HOME, str(self.folder))

    def there(self, data: bytes) -> bytes:
        return data.replace(str(self.folder).encode(), HOME.encode())


class Answers(BaseHTTPRequestHandler):
    server: Imitation

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def allowed(self, path: str) -> bool:
        self.server.asked.append(f"{self.command} {path}")
        name, value = ("X-API-Key", KEY) if path.startswith("/sandboxes") else ("X-Access-Token", TOKEN)
        if self.headers.get(name) != value:
            self.answer(401)
        return self.headers.get(name) == value

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if self.allowed(parts.path):
            file = Path(self.server.here(parse_qs(parts.query)["path"][0]))
            self.answer(200, file.read_bytes()) if file.is_file() else self.answer(404)

    def do_DELETE(self) -> None:
        if self.allowed(self.path):
            self.answer(204)

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.allowed(parts.path):
            return
        if parts.path == "/files":
            form = BytesParser().parsebytes(f"Content-Type: {self.headers['Content-Type']}\n\n".encode() + body)
            file = Path(self.server.here(parse_qs(parts.query)["path"][0]))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(form.get_payload()[0].get_payload(decode=True))  # type: ignore[index,union-attr,arg-type]  # of a form
            self.answer(200, b"[]")
        elif parts.path == "/process.Process/Start":
            self.run(json.loads(body[5:]))
        elif parts.path == "/process.Process/SendSignal":
            os.killpg(json.loads(body)["process"]["pid"], signal.SIGKILL)
            self.answer(200, b"{}")
        else:
            made = {"sandboxID": "m1", "envdAccessToken": TOKEN}
            self.answer(201, json.dumps(made).encode())

    def run(self, request: dict[str, Any]) -> None:
        config = request["process"]
        words = [self.server.here(word) for word in (config["cmd"], *config["args"])]
        self.send_response(200)
        self.end_headers()
        process = subprocess.Popen(  # noqa: S603 - of the test
            words,
            cwd=self.server.here(config["cwd"]),
            env={"PATH": "/usr/bin:/bin", **config["envs"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        self.tell({"start": {"pid": process.pid}})
        while piece := os.read(process.stdout.fileno(), 65536):
            self.tell({"data": {"stdout": base64.b64encode(self.server.there(piece)).decode()}})
        process.stdout.close()
        code = process.wait()
        self.tell({"end": {"exited": True, **({"exitCode": code} if code else {})}})
        self.wfile.write(struct.pack(">BI", 2, 2) + b"{}")

    def tell(self, event: dict[str, Any]) -> None:
        data = json.dumps({"event": event}).encode()
        try:
            self.wfile.write(struct.pack(">BI", 0, len(data)) + data)
        except OSError:
            self.close_connection = True


@pytest.fixture
def imitation(tmp_path: Path) -> Iterator[Imitation]:
    with Imitation(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def sandbox_of(imitation: Imitation) -> Any:  # noqa: ANN401 - of a file that is loaded
    return load(ROOT / "docs" / "examples" / "e2b_sandbox.py").E2BSandbox(KEY, api=imitation.url, envd=imitation.url)


async def test_files_and_searches(imitation: Imitation) -> None:
    sandbox = sandbox_of(imitation)
    assert (await sandbox.write("d/a.txt", b"one\ntwo\n")).created
    assert not (await sandbox.write("d/a.txt", b"one\ntwo\n")).created
    assert (await sandbox.read("d/a.txt", 4, 3)).data == b"two"
    assert (await sandbox.edit("d/a.txt", b"two", b"three")).size == 10
    with pytest.raises(BadEdit):
        await sandbox.edit("d/a.txt", b"nine", b"x")
    with pytest.raises(FileMissing):
        await sandbox.read("nothing")
    assert (await sandbox.list("d")).entries == (Entry("d/a.txt", Kind.FILE, 10),)
    assert [entry.path for entry in (await sandbox.glob("*.txt")).entries] == ["d/a.txt"]
    [match] = (await sandbox.grep(Search("th?ree"))).matches
    assert (match.path, match.number, match.line) == ("d/a.txt", 2, "three")
    for path in ("../x", "/etc/passwd", "~/x", "", "a\nb"):
        with pytest.raises(PathRefused):
            await sandbox.read(path)
    assert KEY not in repr(sandbox)
    await sandbox.close()


async def test_commands_end(imitation: Imitation) -> None:
    sandbox = sandbox_of(imitation)
    execution = await sandbox.execute(Command("echo $MINE; pwd; exit 3", env=(("MINE", "1"),)))
    assert (execution.exit_code, execution.stdout.text) == (3, f"1\n{HOME}\n")
    with pytest.raises(CommandRefused):
        await sandbox.execute(Command(" "))
    with trio.fail_after(PATIENCE):
        late = await sandbox.execute(Command("echo begun; sleep 100", timeout=0.5))
        assert (late.timed_out, late.stdout.text) == (True, "begun\n")
        with trio.move_on_after(0.5) as scope:
            await sandbox.execute(Command("sleep 100"))
    assert scope.cancelled_caught
    assert imitation.asked.count("POST /process.Process/SendSignal") == 2
    await sandbox.close()


async def test_a_session_has_a_machine_that_sleeps_and_ends_with_it(imitation: Imitation) -> None:
    asks = (say(calls=[call("shell", {"command": "echo hi > f"})]), "done") * 2
    spec = SessionSpec(
        model=ScriptedModel(list(asks)), tools=standard_tools(), sandbox=sandbox_of(imitation), hibernate_after=0.2
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        assert imitation.asked == []
        await session.ask("go")
        with trio.fail_after(PATIENCE):
            while "POST /sandboxes/m1/pause" not in imitation.asked:  # noqa: ASYNC110 - only the server knows
                await trio.sleep(0.02)
        await session.ask("go on")
    about_machines = [line for line in imitation.asked if "/sandboxes" in line]
    assert about_machines[:3] == ["POST /sandboxes", "POST /sandboxes/m1/pause", "POST /sandboxes/m1/connect"]
    assert about_machines[-1] == "DELETE /sandboxes/m1"
