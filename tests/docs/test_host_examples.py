"""The examples of the host do what they say, and the commands of its guide too."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import sys
import time
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Final

import httpx
import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.adapters.python_file import load
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from tests.cli.calling import serve_options, subcommand
from tests.docs.pages import blocks_of
from tests.docs.sources import ROOT
from tests.host.hosted import KEYS, LINES, listening, open_desk, scripted
from tests.kit import Element
from tests.patience import PATIENCE

main = subcommand("serve")

EXAMPLES: Final = ROOT / "docs" / "examples"
GUIDE: Final = ROOT / "docs" / "guide" / "serving.md"


def _logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "observability"]


class Beats:
    """Sees heartbeats in a log."""

    def __init__(self) -> None:
        self.come = trio.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        if "heartbeat" in record.getMessage():
            self.come.set()
        return True


async def test_observability_does_what_its_first_line_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "observability")
    plugin, beats = load(EXAMPLES / "observability.py").Observability(seconds=0.005), Beats()
    caplog.handler.addFilter(beats.filter)
    model = ScriptedModel(["one"])
    day = time.strftime("%Y-%m-%d", time.gmtime())
    async with open_desk(scripted().but(model=model, sandbox=LocalSandbox(tmp_path)), [plugin]) as desk:
        pong = await desk.ann.post("/v1/chat", json={"message": "/ping", "session": "trip"})
        assert (pong.status_code, pong.json()) == (200, {"text": "pong"})
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        names = [await _uploaded(desk.ann, name, media) for name, media in (("a", "text/csv"), ("b", "text/plain"))]
        answer = await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip", "files": names})
        assert answer.json()["text"] == "one"
        with trio.fail_after(20):
            await beats.come.wait()
    told = [line for line in _logged(caplog) if line["event"] != "heartbeat"]
    for line in told:
        line.pop("agent_id", None)
        line.pop("duration_ms", None)
    about = {"kind": "chat", "tenant_id": "acme", "user_id": "ann", "session_id": "ann.trip"}
    assert told == [
        {"event": "request_start", **about},
        {"event": "request_end", **about, "outcome": "intercepted"},
        {"event": "request_start", **about},
        {"event": "turn_persisted", "session_id": "ann.trip"},
        {"event": "request_end", **about, "outcome": "finished"},
    ]
    (request,) = model.requests
    assert [message.text for message in request.messages] == [
        "Uploaded files:\n- a (text/csv, 1 KB)\n- b (text/plain, 1 KB)\n\nhi",
        f"[System note: Today is {day}. Tenant: acme]",
    ]


async def _uploaded(client: httpx.AsyncClient, name: str, media: str) -> str:
    headers = {"content-type": media}
    found = await client.post("/v1/sessions/trip/files", content=b"x", params={"name": name}, headers=headers)
    return str(found.json()["name"])


@pytest.mark.long
async def test_each_tenant_has_its_own_agent_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEYS", str(tmp_path / "keys.txt"))
    monkeypatch.setenv("DESK_JOURNAL", str(tmp_path / "desk.db"))
    (tmp_path / "keys.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "keys.txt").chmod(0o600)
    for began in (True, False):
        async with load(EXAMPLES / "tenants.py").host.serving() as serving:
            tools: dict[str, list[str]] = {}
            for user in ("ann", "eve"):
                headers = {"authorization": f"Bearer {KEYS[user]}"}
                async with httpx.AsyncClient(
                    base_url=serving.url, headers=headers, trust_env=False, timeout=PATIENCE
                ) as client:
                    if began:
                        await client.post("/v1/sessions", json={"session": "trip"})
                    answer = await client.post("/v1/chat", json={"message": "hello", "session": "trip"})
                    assert answer.json()["stop_reason"] == "end"  # and the session runs here
                    tools[user] = (await client.get("/v1/sessions/trip")).json()["tools"]
            assert tools == {"ann": ["read_file", "write_file"], "eve": ["read_file"]}


class Channel:
    """A chat in which a person answers when `answered` is set."""

    def __init__(self, answer: str) -> None:
        self.asked: list[str] = []
        self.seen = trio.Event()
        self.answered = trio.Event()
        self._answer = answer

    async def ask(self, question: str) -> str:
        self.asked.append(question)
        self.seen.set()
        await self.answered.wait()
        return self._answer


@pytest.mark.long
@pytest.mark.parametrize(
    ("said", "ran", "heard"), [("yes", [5], "sent 5"), ("too much", [], "rejected by the user: too much")]
)
async def test_an_approver_answers_hours_later(said: str, ran: list[int], heard: str, tmp_path: Path) -> None:
    sent: list[int] = []

    @tool
    async def transfer(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    def answer(request: ModelRequest) -> Element:
        last = request.messages[-1]
        return (
            f"It is so: {last.text}" if isinstance(last, ToolMessage) else say(calls=[call("transfer", {"amount": 5})])
        )

    approve, channel = load(EXAMPLES / "approver.py").approve, Channel(said)
    for hour in (1, 2):
        spec = SessionSpec(
            model=ScriptedModel([answer], repeat_last=True),
            tools=[transfer],
            plugins=[HumanApproval(tools=("transfer",), timeout=None)],
        )
        async with open_desk(spec, journal=SqliteJournal(tmp_path / "desk.db")) as desk, trio.open_nursery() as nursery:
            if hour == 1:
                held = await desk.ann.post("/v1/chat", json={"message": "pay", "session": "trip"})
                assert (held.status_code, held.json()["stop_reason"]) == (202, "held")
            else:
                channel.answered.set()
            nursery.start_soon(approve, desk.ann, channel, 0.1)
            with trio.fail_after(20):
                await channel.seen.wait()
                if hour == 2:
                    async with listening(desk, "GET", "/v1/sessions/trip/events?since=0") as listener:
                        assert f"It is so: {heard}" in await listener.until(lambda text: "event: AgentEnd" in text)
            nursery.cancel_scope.cancel()
    assert sent == ran
    assert len(channel.asked) == 2, "each approver asks once"
    assert set(channel.asked) == {'ann.trip: `transfer` wants to run with {"amount": 5}\ntransfer {"amount": 5}'}


# The guide


def _commands() -> list[str]:
    return [block.text.strip() for block in blocks_of(GUIDE) if block.language == "sh"]


@pytest.mark.long
async def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    app = next(block.text for block in blocks_of(GUIDE) if block.language == "python")
    (tmp_path / "app.py").write_text(app, encoding="utf-8")
    serve, export, *rest = _commands()
    chat, stream, approve, events = [command for command in rest if command.startswith("curl")]
    (upload,) = [block.text for block in blocks_of(GUIDE.with_name("files.md")) if block.text.startswith("curl")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path)}
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            started = partial(trio.run_process, cwd=tmp_path, env=environment, stdout=PIPE, check=False)
            process: trio.Process = await nursery.start(started, shlex.split(f"{serve} --port 0"))
            host, key = re.search(r"(http://\S+)/#token=(\S+)", await _read(process, "Ctrl-C")).groups()  # type: ignore[union-attr]
            assert re.fullmatch(r"export HOST=http://127\.0\.0\.1:8765 KEY=\S+", export)
            environment |= {"HOST": host, "KEY": key}

            async def said(command: str, until: str = "") -> str:
                child: trio.Process = await nursery.start(started, ["sh", "-c", f"exec {command}"])
                text = await _read(child, until)
                child.terminate()
                return text

            reply = json.loads(await said(chat))
            assert (reply["session"], reply["stop_reason"]) == ("you.first", "end")
            frames = (await said(stream)).strip().split("\n\n")
            assert frames[-1].startswith("event: reply\n")
            (held,) = json.loads(frames[-1].partition("data: ")[2])["held"]
            assert (held["tool"], held["args"]) == ("write_file", {"path": "a.txt", "content": "hello"})
            assert await said(approve.replace('"ID"', json.dumps(held["id"]))) == ""
            assert "wrote a.txt" in await said(events, "wrote a.txt")
            (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.7")
            refused = json.loads(await said(upload.replace("/trip/", "/first/")))
            assert refused["type"] == "urn:agentrail:problem:files-not-taken", "no `sandbox`"
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def _read(process: trio.Process, until: str) -> str:
    """Read what *process* prints, until it has printed *until* or is over."""
    assert process.stdout is not None
    text = b""
    while not (until and until.encode() in text) and (piece := await process.stdout.receive_some()):
        text += piece
    return text.decode()


def test_the_other_commands_of_the_guide_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").touch()
    others = [line for command in _commands()[2:] for line in command.splitlines() if line.startswith("agentrail")]
    for line in others:
        arguments = shlex.split(line)[2:]
        if arguments[0] == "keys":
            assert main(arguments) == 0
            assert capsys.readouterr().out.startswith("ak_")
        else:
            assert serve_options(arguments).served.file == Path("app.py")
    assert len(others) == 5
