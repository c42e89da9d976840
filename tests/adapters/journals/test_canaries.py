"""After a redaction, no text that a model, a person, a tool or a plugin has brought is in any byte of the journal."""

from __future__ import annotations

import random
import re
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import trio
from attrs import evolve, frozen

from agentrail import (
    Abort,
    AddContext,
    Ask,
    BlockTool,
    Context,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    Plugin,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SessionHandle,
    SessionSpec,
    SetSection,
    Supervisor,
    open_supervisor,
    tool,
)
from agentrail.errors import AgentrailError
from agentrail.events import Envelope, ToolExecutionStart
from agentrail.journals import MemoryJournal, SqliteJournal, audit, export_session, import_session, model_requests
from agentrail.models import Data, File, FrozenObject, Image, Json, ModelRequest, Text, ToolCall
from agentrail.plugins import (
    AfterResponse,
    AfterTool,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    CallModel,
    CallService,
    FindFiles,
    Log,
    OnToolError,
    ReadFile,
    RunTool,
    WriteFile,
)
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, overflow, permanent, say, stall, transient
from agentrail.tools import CompactNow, Effect, SetTodos, Todo, ok
from agentrail.tools.builtin import ask_user
from tests.kit import Element
from tests.profiles import CAMPAIGN
from tests.runtime.families import agent, task

pytestmark = pytest.mark.long

WORD: Final = "kanarie"
LEFT: Final = re.compile(rb"(?i)kanarie[a-z_-]*")
SEEDS: Final = range(50) if CAMPAIGN else range(2)


def canary(where: str) -> str:
    """Return a text that says *where* it was brought, so that what is left of it tells that too."""
    return f"{WORD}-{where}"


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return f"{canary('result')} {text}"


@tool
async def shaped(text: str) -> dict[str, str]:
    """Return an object."""
    return {canary("detail_key"): text}


@tool
async def breaks(text: str) -> str:
    """Raise."""
    raise ValueError(canary("raised") + text)


@tool
async def hangs(text: str) -> str:
    """Run until it is stopped."""
    await trio.sleep_forever()
    return text


@tool
async def plans(text: str) -> Effect:
    """Make a plan."""
    return Effect(SetTodos((Todo(text),)))


@tool
async def shortens(text: str) -> Effect:
    """Have the context compacted."""
    return Effect(CompactNow(text))


@frozen
class Piece:
    """A part of what the plugin remembers."""

    text: str
    lengths: Mapping[str, int]


@frozen
class Heard:
    """What the plugin remembers."""

    last: str = ""
    all: tuple[str, ...] = ()
    counts: Mapping[str, int] = MappingProxyType({})
    parts: tuple[Piece, ...] = ()
    texts: frozenset[str] = frozenset()
    calls: frozenset[ToolCall] = frozenset()


class Brings(Plugin[Heard]):
    """Does at each hook what the prompt of the turn asks for, with a text of its own."""

    critical = False

    def init(self, ctx: Context) -> Heard:
        return Heard(canary("first_state"))

    def before_prompt(
        self, hook: BeforePrompt, state: Heard, ctx: Context
    ) -> Continue[Heard] | Abort[Heard] | ReplacePrompt[Heard]:
        counts = MappingProxyType({hook.text: len(hook.text), hook.text.upper(): 1})
        state = evolve(
            state,
            last=hook.text,
            all=(*state.all, hook.text),
            counts=counts,
            parts=(Piece(hook.text, counts),),
            texts=frozenset(counts),
            calls=frozenset([ToolCall("c1", "echo", FrozenObject({text: text})) for text in counts]),
        )
        match _wish(hook.text):
            case "replace_prompt":
                return ReplacePrompt(canary("replaced_prompt"), state)
            case "refuse":
                return Abort(canary("refusal"), state)
            case _:
                return Continue(state)

    def before_request(
        self, hook: BeforeRequest, state: Heard, ctx: Context
    ) -> Continue[Heard] | AddContext[Heard] | Abort[Heard] | SetSection[Heard]:
        match _wish(state.last):
            case "section":
                return SetSection("notes", canary("section"))
            case "context":
                return AddContext(canary("context"))
            case "stop":
                return Abort(canary("abort_reason"))
            case _:
                return Continue()

    def before_steering(self, hook: BeforeSteering, state: Heard, ctx: Context) -> Emit[Heard]:
        return Emit("steered", hook.text, state=state)

    def after_response(
        self, hook: AfterResponse, state: Heard, ctx: Context
    ) -> Continue[Heard] | Emit[Heard] | ReplaceResponse[Heard]:
        if _wish(state.last) == "replace_response":
            return ReplaceResponse(canary("replaced_response"), evolve(state, last=""))
        if _wish(state.last) == "emit":
            return Emit("responded", FrozenObject({canary("emitted_key"): canary("emitted")}), state=state)
        return Continue()

    def before_tool(
        self, hook: BeforeTool, state: Heard, ctx: Context
    ) -> Continue[Heard] | BlockTool[Heard] | ReplaceToolArgs[Heard] | HoldTool[Heard] | Ask[Heard]:
        match _wish(state.last):
            case "hold" if not hook.approved:
                return HoldTool(canary("hint"), timeout=None, family=canary("family"))
            case "block":
                return BlockTool(canary("block_reason"))
            case "args":
                return ReplaceToolArgs({"text": canary("replaced_args")})
            case "ask":
                wanted = ASKED[len(state.all) % len(ASKED)]
                return Continue(evolve(state, last=repr(hook.answer))) if hook.answer is not None else Ask(wanted)
            case "break":
                raise ValueError(canary("plugin_error"))
            case _:
                return Continue()

    def on_tool_error(self, hook: OnToolError, state: Heard, ctx: Context) -> Emit[Heard]:
        return Emit("failed", hook.error, state=state)

    def after_tool(self, hook: AfterTool, state: Heard, ctx: Context) -> Continue[Heard] | ReplaceToolResult[Heard]:
        if _wish(state.last) == "result":
            return ReplaceToolResult(ok(canary("replaced_result")), evolve(state, last=""))
        return Continue()

    def before_finish(self, hook: BeforeFinish, state: Heard, ctx: Context) -> Continue[Heard] | Intervene[Heard]:
        if _wish(state.last) == "intervene":
            return Intervene(canary("intervention"), evolve(state, last=""))
        return Continue()

    def on_event(self, event: Envelope, state: Heard, ctx: Context) -> Heard | Log[Heard]:
        if isinstance(event.event, ToolExecutionStart) and _wish(state.last) == "log":
            return Log("info", canary("log_line"), FrozenObject({canary("log_key"): canary("log_value")}), state)
        return state


class Gathers(Plugin[frozenset[tuple[str, int]]]):
    """Keeps a set of what it has heard."""

    critical = False

    def init(self, ctx: Context) -> frozenset[tuple[str, int]]:
        return frozenset({(canary("first_item"), 1), (canary("second_item"), 1)})

    def before_prompt(
        self, hook: BeforePrompt, state: frozenset[tuple[str, int]], ctx: Context
    ) -> Continue[frozenset[tuple[str, int]]]:
        return Continue(state | {(hook.text, len(hook.text))})


ASKED: Final = (
    CallModel(canary("asked_prompt"), system=canary("asked_system")),
    RunTool("echo", FrozenObject(text=canary("asked_args"))),
    RunTool(canary("asked_tool")),
    ReadFile(canary("read_path")),
    WriteFile(canary("written_path"), canary("written"), canary("replaces")),
    FindFiles((canary("found"),), (canary("folder"),)),
    CallService("desk", FrozenObject({canary("payload_key"): canary("payload")})),
)


def _wish(text: str) -> str:
    """Return which wish the prompt *text* has for the plugin; it is the first word."""
    return text.partition(" ")[0]


class CanaryBench:
    """A session in a process, and what its model says next."""

    def __init__(self, folder: Path) -> None:
        self._script: deque[Element] = deque()
        self._folder = folder / canary("folder")
        self._folder.mkdir()

    def spec(self) -> SessionSpec:
        helper = agent(ScriptedModel([self._next], repeat_last=True), tools=[echo], plugins=[Brings()])
        return SessionSpec(
            model=ScriptedModel([self._next], repeat_last=True),
            tools=[echo, shaped, breaks, hangs, ask_user, plans, shortens],
            plugins=[Brings(), Gathers()],
            agents={"helper": helper},
            sandbox=LocalSandbox(self._folder),
            working_dir="work",  # so that the model is told of its folder
            services={"desk": _desk},
            user_data={canary("user_key"): canary("user_value")},
            on_prompt_while_held="queue",
        )

    def says(self, *elements: Element) -> None:
        self._script.extend(elements)

    def _next(self, request: ModelRequest) -> Element:
        return self._script.popleft() if self._script else canary("answer")


async def _desk(payload: Json) -> Json:
    return {canary("served_key"): payload}


Course = Callable[[SessionHandle, CanaryBench], Awaitable[None]]


def doing(wish: str, *script: Element) -> Course:
    """Return a scene of one prompt, with a *wish* for the plugin."""

    async def play(session: SessionHandle, bench: CanaryBench) -> None:
        bench.says(*script)
        with suppress(AgentrailError):
            await session.ask(f"{wish} {canary('prompt')}")

    return play


def calls(name: str = "echo", **args: str) -> Element:
    return say(
        canary("said"),
        thinking=canary("thought"),
        calls=[call(name, args or {"text": canary("args")}, id=canary("provider_id"))],
    )


async def media(session: SessionHandle, _: CanaryBench) -> None:
    data = b64encode(canary("bytes").encode()).decode()
    await session.ask(
        [
            Text(canary("text")),
            Image("image/png", data),
            File("application/pdf", data, name=canary("file_name")),
            Data(FrozenObject({canary("data_key"): canary("data")})),
        ]
    )


async def held(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(say(calls=[call("echo", {"text": canary(f"held_{n}")}) for n in "abc"]))
    first, second, third = (await session.ask(f"hold {canary('prompt')}")).held
    await session.approve(first.id, {"text": canary("edited")})
    await session.approve(second.id, always=True)
    await session.reject(third.id, canary("rejection"), auto_resume=True)
    await session.ask("and now")


async def asked(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(say(calls=[call("ask_user", {"question": canary("question"), "options": [canary("option")]})]))
    (one,) = (await session.ask(canary("prompt"))).held
    await session.respond(one.id, canary("response"))
    await session.ask("and now")


async def cut(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(calls("hangs", text=canary("cut_args")))
    async with session.subscribe(types=[ToolExecutionStart]) as events:
        await session.prompt(canary("prompt"))
        await anext(events)
    await session.abort(canary("abort"), kill_tools="all")


async def steered(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(calls("hangs", text=canary("steered_args")))
    async with session.subscribe(types=[ToolExecutionStart]) as events:
        await session.prompt(canary("prompt"))
        await anext(events)
    await session.steer(canary("steering"))
    await session.ask("and now")


async def dropped(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(stall(text=canary("partial"), after=1))
    await session.prompt(canary("prompt"))
    kept = await session.prompt(canary("withdrawn"))
    await session.prompt(canary("dropped"))
    await session.withdraw(kept.ref)
    await session.abort(canary("abort"), clear_queue=True)


async def titled(session: SessionHandle, _: CanaryBench) -> None:
    await session.label(title=canary("title"))


async def compacted(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(canary("summary"))
    await session.ask(canary("prompt"))
    await session.compact(canary("compact_reason"))
    await session.ask("and now")


async def refused(session: SessionHandle, _: CanaryBench) -> None:
    for doing in (
        session.approve(canary("approval_id")),
        session.reject(f"{session.id}:{canary('approval_id')}", canary("rejection")),
        session.respond(canary("question_id"), canary("response")),
        session.withdraw(canary("ref")),
        session.detach_tools(canary("detached")),
        session.detach_plugin(canary("detached_plugin")),
        session.switch_model(canary("model")),
    ):
        with suppress(AgentrailError):
            await doing


async def family(session: SessionHandle, bench: CanaryBench) -> None:
    bench.says(task("helper", canary("task")), calls(), canary("helped"))
    await session.ask(canary("prompt"))
    bench.says(task(canary("agent"), canary("task")))
    await session.ask(canary("prompt"))


COURSES: Final[Mapping[str, Course]] = {
    "text": doing("go", say(canary("said"), thinking=canary("thought"))),
    "call": doing("go", calls()),
    "object": doing("go", calls("shaped")),
    "long": doing("go", calls(text=canary("long") * 2_000), canary("long") * 2_000),
    "plans": doing("go", calls("plans")),
    "shortens": doing("go", calls("shortens"), canary("summary")),
    "raises": doing("go", calls("breaks")),
    "unfit": doing("go", calls("echo", other=canary("unfit"))),
    "made up": doing("go", calls(canary("made_up"))),
    "loop": doing("go", calls(), calls(), calls(), calls(), calls()),
    "fails": doing("go", permanent(canary("provider_error"))),
    "retried": doing("go", transient(canary("transient_error")), canary("answer")),
    "too long": doing("go", overflow(canary("overflow")), canary("summary")),
    **{wish: doing(wish, calls()) for wish in ("block", "args", "ask", "break", "result", "emit", "log")},
    **{f"ask {number}": doing("ask", calls()) for number in range(len(ASKED))},
    **{
        wish: doing(wish)
        for wish in ("replace_prompt", "refuse", "section", "context", "stop", "replace_response", "intervene")
    },
    "media": media,
    "held": held,
    "asked": asked,
    "cut": cut,
    "steered": steered,
    "dropped": dropped,
    "titled": titled,
    "compacted": compacted,
    "refused": refused,
    "family": family,
}


def left_in(folder: Path) -> set[str]:
    """Return the canaries in the bytes of all files of *folder*, also in base64."""
    found: set[str] = set()
    for file in sorted(folder.rglob("*")):
        content = file.read_bytes() if file.is_file() else b""
        found.update(f"{file.name}: {each.decode()}" for each in LEFT.findall(content))
        if b64encode(WORD.encode())[:8] in content:
            found.add(f"{file.name}: in base64")
    return found


async def redact_all(supervisor: Supervisor) -> list[str]:
    stored = [one.session_id for one in await supervisor.stored()]
    for session_id in stored:
        await supervisor.redact(session_id, by="the desk for privacy")
    return stored


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_canary_is_left(seed: int, tmp_path: Path) -> None:
    chance, bench = random.Random(seed), CanaryBench(tmp_path)
    names = chance.sample([*COURSES], len(COURSES))
    folder = tmp_path / "journal"
    folder.mkdir()
    journal = SqliteJournal(folder / "agentrail.db", sync="normal")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(bench.spec(), "s")
        for name in names:
            await COURSES[name](session, bench)
            with suppress(AgentrailError):
                await session.ask(canary("between"))
    assert len(left_in(folder)) > 50
    async with open_supervisor(journal=journal) as supervisor:
        stored = await redact_all(supervisor)
        assert len(stored) > 1
        assert left_in(folder) == set()
    for session_id in stored:
        assert WORD not in repr(await journal.read(session_id, 0, 10_000))
        assert WORD not in repr(await journal.latest(session_id))
        assert {each.what for each in await audit(journal, session_id)} <= {"redacted"}
    assert WORD not in repr(await model_requests(journal, "s"))
    moved = MemoryJournal(encode=True)
    exported = tmp_path / "exported"
    exported.mkdir()
    for session_id in stored:
        await export_session(journal, session_id, exported / f"{session_id}.jsonl")
        assert await import_session(moved, exported / f"{session_id}.jsonl") == session_id
        assert await moved.read(session_id, 0, 10_000) == await journal.read(session_id, 0, 10_000)
    assert left_in(exported) == set()
    for kept in (journal, moved):
        async with open_supervisor(journal=kept) as supervisor:
            spec = bench.spec().but(model=ScriptedModel(["welcome back"], repeat_last=True), user_data={})
            session = await supervisor.resume("s", spec)
            assert WORD not in repr(session.inspect())
            assert (await session.ask("hello again")).text == "welcome back"
            fork = await supervisor.fork("s", spec)
            assert (await fork.ask("hello again")).text == "welcome back"
        assert {each.what for each in await audit(kept, "s")} == {"redacted"}
    await journal.close()
    assert left_in(folder) == set()
