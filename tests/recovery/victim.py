"""A process under load that is killed again and again: `python -m tests.recovery.victim FOLDER`.

Each line on standard input starts one life: a process, forked while no file is open, that connects to the socket of
that name and serves its client. What follows the name is for the program that begins the life. On standard output come
the process id and, at the end, the exit status.
"""

import json
import logging
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import blake2b
from pathlib import Path

import trio
from attrs import frozen

from agentrail import Accepted, Context, Continue, Plugin, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import Settings
from agentrail.app import build, session_code
from agentrail.codec.values import write
from agentrail.errors import AgentrailError, SessionAsleep
from agentrail.events import ApprovalRequired, ApprovalResolved, Cursor, Envelope
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.models import (
    PROVIDERS,
    EmitChunk,
    JsonObject,
    ModelRequest,
    Response,
    StopReason,
    Text,
    TextChunk,
    UserMessage,
)
from agentrail.plugins import AfterTool, HumanApproval
from agentrail.testing import call
from agentrail.tools import EffectClass, NotStarted, Ok, Probed, ToolContext, ToolSpec, Unknown, ok
from agentrail.values.messages import why_unfit
from tests.recovery.witness import Witness

LOADED_BEFORE_THE_FIRST_LIFE = (build, session_code, build)

EFFECTS = {
    "pure": EffectClass.PURE,
    "idempotent": EffectClass.IDEMPOTENT,
    "checkable": EffectClass.CHECKABLE,
    "unsafe": EffectClass.UNSAFE,
    "risky": EffectClass.UNSAFE,
}
"""The tools by name; `risky` calls need an approval."""

FORMATS = ("anthropic", "openai", "openai-chat", "gemini")


def digest_of(envelope: Envelope) -> str:
    """Return a digest of an event as a subscriber got it."""
    return blake2b(write(envelope), digest_size=8).hexdigest()


def why_refused(request: ModelRequest) -> str | None:
    """Return why a provider would refuse *request*, or `None`; raise if it cannot be rendered."""
    for provider in FORMATS:
        asked_request = request.but(model=f"{provider}:m", options={})
        format_of(PROVIDERS[provider]).render(asked_request, provider, "m", Settings())
    return why_unfit(request.messages)


class Witnessed:
    """A tool that takes a moment, and logs its executions."""

    def __init__(self, name: str, witness: Witness) -> None:
        self.spec = ToolSpec(name, f"a tool that is {name}", effect=EFFECTS[name])
        self._witness = witness

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        self._witness.note("start", self.spec.name, ctx.idempotency_key)
        await trio.sleep(random.random() * 0.05)
        self._witness.note("end", self.spec.name, ctx.idempotency_key)
        return ok("done " * random.choice((1, 1, 1, 16_000)))

    async def probe(self, key: str) -> Probed:
        await trio.sleep(random.random() * 0.002)
        runs = [run for run in self._witness.runs() if run.key == key]
        if not runs:
            return NotStarted()
        return ok("it was done") if runs[-1].ended else Unknown()


class Talker:
    """A model that calls the tools named in the prompt, and streams some text."""

    name = "talker"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        problem = why_refused(request)
        if problem is not None:
            sys.stderr.write(f"a request that no provider takes: {problem}\n")
            os._exit(3)
        last = request.messages[-1]
        chance = random.Random(zlib.crc32(f"{len(request.messages)} {last.text}".encode()))
        for word in ("let ", "me ", "see"):
            await trio.sleep(chance.random() * 0.004)
            emit(TextChunk(word))
        expected = [name for name in last.text.split() if name in EFFECTS] if isinstance(last, UserMessage) else []
        calls = tuple(call(name) for name in expected)
        return Response((Text("let me see"),), calls, StopReason.TOOL_CALLS if calls else StopReason.END)


@frozen
class Results(Plugin[int]):
    """Counts results: tests that plugin states come back."""

    def init(self, ctx: Context) -> int:
        return 0

    def after_tool(self, hook: AfterTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + 1)


def spec(witness: Witness) -> SessionSpec:
    return SessionSpec(
        model=Talker(),
        tools=[Witnessed(name, witness) for name in EFFECTS],
        plugins=[Results(), HumanApproval(tools=frozenset({"risky"}))],
        hibernate_after=0.02,
        name="victim",
    )


def held_by(session: SessionHandle) -> str:
    """Return the ids of all held calls, as JSON."""
    return json.dumps([held.id for held in session.status().held])


def rests(session: SessionHandle) -> bool:
    """Return whether no work is under way; held calls may wait."""
    try:
        state = session.inspect()
    except SessionAsleep:
        return True
    remaining = state.queue or state.lingering_calls or state.quarantined_calls
    return not state.has_running_work and (bool(session.status().held) or (state.turn is None and not remaining))


class Life:
    """One life of the victim: opens sessions, carries out commands, and passes on events."""

    def __init__(self, supervisor: Supervisor, stream: trio.SocketStream, code: SessionSpec) -> None:
        self._supervisor = supervisor
        self._stream = stream
        self._spec = code
        self._sending = trio.Lock()
        self._sessions: dict[str, SessionHandle] = {}

    async def run(self) -> None:
        buffer = b""
        async with trio.open_nursery() as nursery:
            async for received in self._stream:
                *lines, buffer = (buffer + received).split(b"\n")
                for line in lines:
                    nursery.start_soon(self._serve, json.loads(line), nursery)
            nursery.cancel_scope.cancel()

    async def _say(self, **told: object) -> None:
        async with self._sending:
            await self._stream.send_all(json.dumps(told).encode() + b"\n")

    async def _serve(self, values: dict[str, str], nursery: trio.Nursery) -> None:
        try:
            ref = await self._do(values, nursery)
        except AgentrailError as error:
            await self._say(answer=values["id"], error=type(error).__name__)
        else:
            await self._say(answer=values["id"], ref=ref)

    async def _do(self, values: dict[str, str], nursery: trio.Nursery) -> str:
        command = values.get("command")
        if values["do"] == "open":
            session = await self._supervisor.open(values["session"], self._spec)
            self._sessions[session.id] = session
            nursery.start_soon(self._pass_on, session, int(values["since"]))
            return held_by(session)
        if values["do"] in ("write", "delete", "redact"):
            return await self._of_doomed(values["do"], values["session"], values.get("text", ""))
        session = self._sessions[values["session"]]
        accepted: Accepted | None = None
        match values["do"]:
            case "prompt":
                accepted = await session.prompt(values["text"], command=command)
            case "steer":
                accepted = await session.steer(
                    values["text"], when="now" if values["when"] == "now" else "gap", command=command
                )
            case "abort":
                await session.abort("enough", clear_queue="clear" in values, command=command)
            case "approve":
                await session.approve(values["approval"], command=command)
            case "reject":
                await session.reject(values["approval"], "no", auto_resume=True, command=command)
            case "rest":
                while not rests(session):  # noqa: ASYNC110 - nobody sets an event for it
                    await trio.sleep(0.005)
                return held_by(session)
        return "" if accepted is None else accepted.ref

    async def _of_doomed(self, do: str, session: str, text: str) -> str:
        """Write a session that ends, or erase one that was written."""
        match do:
            case "write":
                written = await self._supervisor.spawn(self._spec, session)
                await written.ask(text)
                await written.stop()
            case "delete":
                await self._supervisor.delete(session)
            case _:
                await self._supervisor.redact(session, by="me")
        return ""

    async def _pass_on(self, session: SessionHandle, since: int) -> None:
        async with session.subscribe(since=Cursor(since)) as events:
            async for envelope in events:
                if not envelope.event.durable:
                    continue
                event = envelope.event
                held = event.approval_id if isinstance(event, ApprovalRequired | ApprovalResolved) else ""
                name = type(event).__name__
                await self._say(
                    event=session.id, seq=envelope.seq, digest=digest_of(envelope), name=name, approval=held
                )


async def live(folder: Path, socket: str) -> None:
    stream = await trio.open_unix_socket(socket)
    code = spec(Witness(folder / "witness"))
    async with open_supervisor(
        journal=SqliteJournal(folder / "agentrail.db"), specs={"victim": lambda: code}
    ) as supervisor:
        await Life(supervisor, stream, code).run()


async def warm_up() -> None:
    """Import all that a life uses, so that lives spend their time with work."""
    journal = MemoryJournal(encode=True)
    with tempfile.TemporaryDirectory() as temporary_directory:
        for _ in range(2):
            async with open_supervisor(journal=journal) as supervisor:
                session = await supervisor.open("s", spec(Witness(Path(temporary_directory) / "witness")))
                await session.ask("pure")


Begin = Callable[[Path, str], AbstractContextManager[Path]]
"""Prepares the process of a life as its line says; returns the folder of its journal."""


def main(begin: Begin = lambda folder, _: nullcontext(folder)) -> None:
    folder = Path(sys.argv[1])
    logging.disable()
    trio.run(warm_up)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            random.seed()
            socket, _, text = line.strip().partition(" ")
            with begin(folder, text) as index:
                trio.run(partial(live, index, socket))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
