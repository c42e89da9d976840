"""The models, tools and plugins of a simulation: each works correctly, except when a fault of its kind fires."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Final, cast

import trio
from attrs import field, frozen

from agentrail.core.answers import NAME as ANSWER_TOOL
from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.errors import ContextTooLong, PermanentModelError, TransientModelError
from agentrail.hooks.actions import Ask, CallService, Continue
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.plugin import Plugin
from agentrail.ports.model import EmitChunk
from agentrail.ports.tool import ToolContext
from agentrail.testing.probe_plugins import LIES, Answering
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.world.random_results import FILES, FORMED
from agentrail.values.content import File, Said, Text, Thinking, ToolCall
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.messages import StopReason
from agentrail.values.stream import ModelRequest, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.tools import (
    AskPerson,
    CompactNow,
    Effect,
    NotStarted,
    Probed,
    SetTodos,
    Todo,
    ToolResult,
    ToolSpec,
    Unknown,
    err,
    ok,
)
from agentrail.values.usage import NOTHING_USED, Usage

ON_PURPOSE: Final = "on purpose"
MORE: Final = (" and so it goes on for a while. ",) * 20
"""What a model says after the canary now and then, so that much is told before the response ends."""
PATHS: Final = ("a", "b", "secret", "replaced")

DAWDLES: Final = 0.06
"""Seconds that a slow listener takes for one event."""

HELPER: Final = "helper"
TASK_TOOL: Final = "task"
TASK: Final = freeze_object({"agent": HELPER, "description": "help", "prompt": "Help."})

GARBAGE: Final[tuple[Callable[[ModelRequest], object], ...]] = (
    lambda _: None,
    lambda _: "an answer",
    lambda _: Response((Text("half a pair \ud800"),)),
    lambda _: Response((), (ToolCall("", "nobody", freeze_object({"path": "a"}), "x"),), StopReason.TOOL_CALLS),
    lambda _: Response((), (ToolCall("", "read", freeze_object({"path": 7}), "x"),), StopReason.TOOL_CALLS),
    lambda _: Response((), tuple(ToolCall("", "read", freeze_object({"path": "a"}), "x") for _ in range(3))),
    lambda _: Response((), (), StopReason.TOOL_CALLS),
    lambda _: Response(),
    lambda _: Response((Text("x" * 5000),), (), StopReason.LENGTH),
    lambda _: Response((Text("no"),), (), StopReason.REFUSED),
)
"""Functions that make bad responses: of a wrong type, unusual, or with calls of unknown tools or wrong arguments."""

NONSENSE: Final[tuple[object, ...]] = (None, "done", 7, {"content": "done"}, ok, b"done", [])
"""Values that a tool may not return."""


class BrokenOnPurposeError(Exception):
    """Raised on purpose by a simulated model, tool or plugin."""


class SimulatedProvider:
    """A model that answers with random words and tool calls, and fails when a fault fires."""

    def __init__(self, environment: Environment, session_id: str, name: str) -> None:
        self.name = name
        self._environment = environment
        self._chance = environment.choice("model", session_id, name)
        self._secret = environment.choice("canary", "model", session_id, name)
        self.forms_answers = environment.choice("forms", session_id, name).percent(50)
        self._session_id = session_id

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer *request*; note with the stage that the request was made and while it is under way."""
        environment = self._environment
        environment.asked(request)
        key = request.session_id, request.request_id
        environment.asking[key] += 1
        try:
            return await self._answer(request, emit)
        finally:
            environment.asking[key] -= 1

    async def _answer(self, request: ModelRequest, emit: EmitChunk) -> Response:
        environment, chance = self._environment, self._chance
        environment.strike(self._session_id)
        await trio.sleep(chance.below(1000) / 2000)
        if environment.fires("model_deaf"):
            with trio.CancelScope(shield=True):  # the model ignores its cancellation on purpose
                await trio.sleep(chance.number(1, 3000) / 1000)
        await self._fail(emit)
        self._blab(request)
        pieces = [chance.pick(FORMED)] if request.returns else self._says(request)
        thought = self._thinks(emit)
        for piece in pieces:
            emit(TextChunk(piece))
            await trio.sleep(chance.below(200) / 1000)
            environment.strike(self._session_id)
        if environment.fires("model_cut"):
            raise TransientModelError(self._purpose())
        if environment.fires("model_garbage"):
            return cast("Response", chance.pick(GARBAGE)(request))
        calls = self._calls(request)
        used = NOTHING_USED
        if not environment.fires("model_uncounted"):
            used = Usage(request.size // 4 + 1, sum(map(len, pieces)) // 4 + 5)
            emit(UsageChunk(used))
        parts = (Text("".join(pieces)),) if pieces else ()
        return Response((*thought, *parts), calls, StopReason.TOOL_CALLS if calls else StopReason.END, used)

    def _purpose(self) -> str:
        return f"{ON_PURPOSE}{self._environment.canary(self._secret, 50)}"

    async def _fail(self, emit: EmitChunk) -> None:
        environment, chance = self._environment, self._chance
        if environment.fires("model_transient"):
            raise TransientModelError(self._purpose(), chance.pick((None, None, 0.5)))
        if environment.fires("model_permanent"):
            raise PermanentModelError(self._purpose())
        if environment.fires("model_overflow"):
            raise ContextTooLong(self._purpose())
        if environment.fires("model_raises"):
            raise BrokenOnPurposeError(self._purpose())
        if environment.fires("model_stalls"):
            for _ in range(chance.below(3)):
                emit(ThinkingChunk("hm "))
            await trio.sleep_forever()

    def _blab(self, request: ModelRequest) -> None:
        """If a summary is wanted, sometimes fail with the canary in the error, which is logged."""
        why = "" if request.request_id else self._environment.canary(self._secret, 25)
        if why:
            message = f"{ON_PURPOSE}{why}"
            raise PermanentModelError(message)

    def _thinks(self, emit: EmitChunk) -> tuple[Said, ...]:
        """Emit the canary as thoughts in two chunks, or nothing."""
        thought = self._environment.canary(self._secret, 15)
        for piece in (thought[:7], thought[7:]) if thought else ():
            emit(ThinkingChunk(piece))
        return (Thinking(thought),) if thought else ()

    def _says(self, request: ModelRequest) -> list[str]:
        chance = self._chance
        words = chance.below(4) + (0 if request.tools else 1)
        words_ = [f"word{chance.below(100)} " for _ in range(words)] or ["done"]
        canary = self._environment.canary(self._secret, 25 if request.request_id else 80)
        if not canary:
            return words_
        index = self._secret.number(1, 9)
        return [*words_, canary[:index], canary[index:], *(MORE if self._secret.percent(20) else ())]

    def _calls(self, request: ModelRequest) -> tuple[ToolCall, ...]:
        chance = self._chance
        if not request.may_call or not request.tools or not chance.percent(55):
            return ()
        names = [chance.pick(request.tools).name for _ in range(chance.number(1, 3))]
        if any(tool.name == TASK_TOOL for tool in request.tools) and chance.percent(50):
            names[0] = TASK_TOOL
        answers = [tool.name for tool in request.tools if tool.name.startswith(ANSWER_TOOL)]
        if answers and self._chance.percent(60):
            names = answers
        if request.must_call:
            names = [request.must_call]
        return tuple(ToolCall("", name, self._args(name), f"x{index}") for index, name in enumerate(names))

    def _args(self, name: str) -> JsonObject:
        chance = self._chance
        if name == TASK_TOOL:
            return TASK
        if name.startswith(ANSWER_TOOL):
            return freeze_object({"sum": chance.pick((3, 4, "three"))})
        if name.startswith(FINDER):
            return freeze_object({"query": chance.pick(("seek", "stars and soil", "dig", "nothing"))})
        args: dict[str, object] = {"path": chance.pick(PATHS)}
        canary = self._environment.canary(self._secret, 15)
        if canary:
            args |= {"note": canary, f"a{canary}": 1}
        if name.startswith(CALLER):
            args = {"name": chance.pick(("seek", "dig")), "arguments": args}
        return freeze_object(args)


class SimulatedWorker:
    """A tool that waits for a random time and returns a random result, or fails when a fault fires."""

    def __init__(self, environment: Environment, session_id: str, spec: ToolSpec) -> None:
        self.spec = spec
        self._environment = environment
        self._session_id = session_id
        self._chance = environment.choice("tool", session_id, spec.name)
        self._secret = environment.choice("canary", "tool", session_id, spec.name)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Execute the call: wait, then return a result, or fail if a fault fires; note with the stage that it runs."""
        environment = self._environment
        environment.runs(ctx.session_id, ctx.call_id, args)
        key = f"{ctx.session_id}/{ctx.call_id}"
        environment.running[key] += 1
        environment.ran[ctx.idempotency_key] += 1
        environment.strike(self._session_id)
        try:
            return await self._work(ctx)
        finally:
            environment.running[key] -= 1
            environment.verdict.note("ran", key)

    async def _work(self, ctx: ToolContext) -> ToolResult:
        environment, chance = self._environment, self._chance
        if environment.fires("tool_chatters"):
            for number in range(chance.below(300)):
                ctx.report(f"step {number}")
        canary = environment.canary(self._secret)
        for piece in (canary[:5], canary[5:]) if canary else ():
            ctx.report(piece)
        late = environment.fires("tool_late")
        try:
            if environment.fires("tool_deaf"):
                with trio.CancelScope(shield=True):  # the tool ignores its cancellation on purpose
                    await trio.sleep(chance.number(1, 6000) / 1000)
            if environment.fires("tool_hangs"):
                await trio.sleep_forever()
            await trio.sleep(chance.pick((1, 50, 400, 1500)) * (1 + chance.below(100) / 100) / 1000)
        except trio.Cancelled:  # noqa: ASYNC103 - late on purpose
            if not late:
                raise
            return ok("as if nothing had been")  # noqa: ASYNC104 - on purpose
        environment.strike(self._session_id)
        if environment.fires("tool_raises"):
            why = f"{self.spec.name}{environment.canary(self._secret, 50)}"
            raise BrokenOnPurposeError(why)
        if environment.fires("tool_exits"):
            raise SystemExit(3)
        if environment.fires("tool_nonsense"):
            return cast("ToolResult", chance.pick(NONSENSE))
        return self._result()

    async def probe(self, key: str) -> Probed:
        """Return whether an interrupted call has run, or in a fifth of the cases `Unknown`."""
        await trio.sleep(0.05)
        has_run = self._environment.ran[key]
        if self._chance.percent(20):
            return Unknown()
        return ok("it was done") if has_run else NotStarted()

    def _result(self) -> ToolResult:
        chance = self._chance
        canary = self._environment.canary(self._secret)
        if canary:
            with_file = ok((Text("see"), _named(canary)), freeze_object({"a": canary}))
            results: tuple[ToolResult, ...] = (ok(f"done{canary}"), err(canary), with_file)
            return self._secret.pick(results)
        if self.spec.name == "talk" and chance.percent(60):
            return Effect(AskPerson("which one?", chance.pick(((), ("a", "b")))))
        kinds: tuple[tuple[int, ToolResult], ...] = (
            (12, ok("done")),
            (3, err("it could not be done")),
            (1, Effect(SetTodos((Todo("tidy up"),)))),
            (1, Effect(CompactNow())),
            (1, ok((Text("see"), FILES[1]))),
        )
        return chance.weighted(kinds)


def _named(name: str) -> File:
    return File("text/plain", b64encode(name.encode()).decode(), name=name)


@frozen
class Prober(Answering):
    """A plugin that lets all hooks pass, asks a service at the hooks in `asks`, and breaks when a fault fires."""

    environment: Environment = field(eq=False, repr=False)
    asks: frozenset[str] = frozenset()

    def answer(self, hook: Hook, state: int) -> object:
        """Let the hook pass or ask the service; raise, lie or take virtual time if a fault fires."""
        fires = self.environment.fires
        if fires("plugin_slow"):
            self.environment.watch.worked += 0.3
        if fires("plugin_raises"):
            raise BrokenOnPurposeError(hook.hook_name)
        if fires("plugin_lies"):
            return LIES[state % len(LIES)](hook, state)
        if hook.hook_name in self.asks and hook.answer is None:
            return Ask(CallService("lookup"), state + 1, 2.0)
        return Continue(state + 1)


@frozen
class Dawdler(Plugin[None]):
    """A plugin that is slower at each event than the hooks of a step should be."""

    environment: Environment = field(eq=False, repr=False)

    def on_event(self, event: Envelope, state: None, ctx: Context) -> None:  # noqa: ARG002 - the signature of the hook
        """Add `DAWDLES` seconds to the virtual duration of the step."""
        self.environment.watch.worked += DAWDLES


async def lookup(environment: Environment, _: Json) -> Json:
    """The service that plugins call (`CallService`): return an answer; hang or raise if a fault fires."""
    if environment.fires("service_hangs"):
        await trio.sleep_forever()
    await trio.sleep(0.013)
    if environment.fires("service_raises"):
        raise BrokenOnPurposeError(ON_PURPOSE)
    return {"found": environment.canary(environment.choice("canary", "service", trio.current_time())) or 1}
