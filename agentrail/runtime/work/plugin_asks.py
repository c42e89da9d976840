"""Carries out what plugins ask for (`Ask`): model calls, tools, files, services."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from agentrail.core.answers import read_answer
from agentrail.core.vocabulary.inputs import AnyInput, AskSettled
from agentrail.core.vocabulary.state import State
from agentrail.errors import FileFailed, FileMissing, OutsideError
from agentrail.hooks.actions import (
    Answered,
    AskAnswer,
    CallModel,
    CallService,
    Failed,
    FindFiles,
    FindGitPrograms,
    ReadFile,
    RunTool,
    WriteFile,
)
from agentrail.lazy import LazyModule
from agentrail.ports.failpoints import reach
from agentrail.ports.model import PriceBook
from agentrail.ports.sandbox import KIB, Sandbox
from agentrail.ports.tool import Service, Tool, ToolContext, ToolResources
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.task_pool import Work
from agentrail.runtime.shared.turn_waits import TurnWork
from agentrail.runtime.shared.untrusted_calls import crash_text, traced
from agentrail.runtime.work.git_programs import find_git_programs
from agentrail.runtime.work.model_stream import UsageMeter
from agentrail.runtime.work.plugin_files import find_files, replace_file
from agentrail.runtime.work.tool_call import execute
from agentrail.values.content import Text, text_of
from agentrail.values.json import EMPTY, JsonObject, freeze, freeze_object
from agentrail.values.messages import UserMessage
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.tools import Err, Ok, result_text
from agentrail.values.untrusted_content import MAX_TEXT, fit_text
from agentrail.values.untrusted_values import described
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import quick

if TYPE_CHECKING:
    from agentrail.tools import answer_forms
else:  # imported at the first use: only needed for answers with a schema
    answer_forms = LazyModule("agentrail.tools.answer_forms")

log = logging.getLogger("agentrail.ask")

_answered = quick(Answered)
_request = quick(ModelRequest)
_text = quick(Text)
_user = quick(UserMessage)

_CANCELLED: Final = Failed("cancelled")

MAX_READ: Final = 1024 * KIB
"""The most bytes of a file that a plugin may read; a larger file is refused, not cut."""

MAX_WRITTEN: Final = 4 * MAX_TEXT
"""The most bytes of a file that a plugin may write: as many as the longest text of a tool may have."""


ModelCaller: TypeAlias = Callable[[ModelRequest, UsageMeter], Awaitable[Response]]
"""Function that makes a request to a model for a question; a meter counts its chunks."""

InSandbox: TypeAlias = RunTool | ReadFile | WriteFile | FindFiles | FindGitPrograms
"""A request that is carried out with the session's tools and files."""


class RunningAsk(Work):
    """A plugin's ask that is being carried out; exactly one answer, with the usage, is posted when it ends."""

    __slots__ = ("_answer", "_function", "_post", "_service", "_used", "ask_id")

    def __init__(self, ask_id: str, post: Callable[[RunningAsk, AnyInput], None]) -> None:
        super().__init__()
        self.ask_id = ask_id
        self._post = post
        self._service = ""
        """Name of the service that is called; empty if the request is another one."""
        self._function: Service | None = None
        """The service; `None` if there is none."""
        self._answer: AskAnswer = _CANCELLED
        self._used: Callable[[], Usage] = _nothing

    @in_brackets
    def __repr__(self) -> str:
        return repr(self.ask_id)

    async def serve(self, request: CallService, services: Mapping[str, Service], session_id: str) -> None:
        """Call one of the *services*, which need nothing else of the session."""
        reach("ASK_SPAWNED")
        if self.cancelled:  # as in `run`
            return
        self._service = request.name
        self._function = service = services.get(request.name)
        if service is None:
            names = ", ".join(sorted(services)) or "none"
            self._answer = Failed(f"there is no service `{request.name}` (there are: {names})")
        else:
            with TurnWork(session_id, request.name):
                answer = await service(request.payload)
            self._answer = _answered(freeze(answer))

    async def run(
        self,
        request: InSandbox,
        tools: Callable[[str], Tool],
        world: ToolResources,
        context: Callable[[str, Tool], Awaitable[ToolContext]],
    ) -> None:
        """Run one of the *tools*, in a context that *context* makes, or work on files in the sandbox of *world*."""
        reach("ASK_SPAWNED")
        if self.cancelled:  # a cancelled tool would still run until its first checkpoint
            return
        if isinstance(request, RunTool):
            tool = tools(request.name)
            self._answer = await _of_tool(tool, request, await context(self.ask_id, tool))
        else:
            self._answer = await _of_files(world.sandbox, request)

    async def call_model(
        self, request: CallModel, own_model: str, state: State, prices: PriceBook, ask: ModelCaller
    ) -> None:
        """Send the prompt to the request's model, else the session's *own_model*, for text or an object; add usage."""
        reach("ASK_SPAWNED")
        if self.cancelled:  # as in `run`
            return
        prompt = (_user((_text(request.prompt),)),) if request.prompt or not request.messages else ()
        model = request.model or own_model
        options = _options_of(request, state, model)
        if request.max_tokens is not None:
            options = freeze_object({**options, "max_tokens": request.max_tokens})
        messages = (*request.messages, *prompt)
        model_request = _request(
            model, messages, request.system, may_call=False, options=options, returns=request.returns, once=True
        )
        meter = UsageMeter(model_request)
        priced = partial(prices.priced, model, options)
        self._used = lambda: priced(meter.used(cut=self.cancelled))
        response = await ask(model_request, meter)
        self._used = lambda: priced(response.usage)
        text = text_of(response.parts)
        self._answer = _object_in(text, request.returns) if request.returns else Answered(text)

    def raised(self, error: BaseException) -> None:
        """Answer that the request has failed."""
        log.warning("ask %s failed: %s", self.ask_id, traced(error))
        text = described(error)
        if self._function is not None:
            text = crash_text(error, self._function, self._service, "aio.service")
        self._answer = Failed(text)

    def over(self) -> None:
        """Post the answer, with the usage."""
        reach("ASK_SETTLED")
        self._post(self, AskSettled(self.ask_id, self._answer, self._used()))


def _options_of(request: CallModel, state: State, name: str) -> JsonObject:
    """Return the options of *request* for the model called *name*, after those of the session if they belong to it."""
    if request.options and request.model is not None:
        return request.options
    model, options = state.using
    own_options = options if model == name else EMPTY
    return freeze_object({**own_options, **request.options}) if request.options else own_options


def _object_in(text: str, schema: JsonObject) -> AskAnswer:
    """Return the JSON object in *text*, or why it does not fit *schema*."""
    answer = read_answer(text)
    problem = answer if isinstance(answer, str) else answer_forms.misfit(schema, answer)
    return _answered(answer) if problem is None else Failed(f"the answer does not fit: {problem}")


def _nothing() -> Usage:
    """Usage of requests that need no model: none."""
    return NOTHING_USED


async def _of_tool(tool: Tool, request: RunTool, context: ToolContext) -> AskAnswer:
    """Run *tool*, and return its result as the answer."""
    result = await execute(tool, request.args, context)
    if isinstance(result, Ok):
        return Answered(result_text(result))
    return Failed(result_text(result) if isinstance(result, Err) else "a tool with an effect cannot be asked for")


async def _of_files(sandbox: Sandbox, request: ReadFile | WriteFile | FindFiles | FindGitPrograms) -> AskAnswer:
    """Read, write or find files, and return the answer."""
    match request:
        case ReadFile():
            try:
                return Answered(fit_text(await _text_of_file(sandbox, request.path)))
            except FileMissing:  # a valid answer: the plugin learns that there is no such file
                return Answered(None)
        case WriteFile():
            await _write(sandbox, request)
            return Answered(None)
        case FindFiles():
            return Answered(freeze(await find_files(sandbox, request)))
        case FindGitPrograms():
            return Answered(freeze(await find_git_programs(sandbox)))


async def _text_of_file(sandbox: Sandbox, path: str) -> str:
    """Return the text of a file; raise `OutsideError` if it is too large."""
    content = await sandbox.read(path, 0, MAX_READ)
    if content.size > MAX_READ:
        raise OutsideError("not-readable", path, f"it is larger than {MAX_READ} bytes")
    return content.data.decode()


async def _write(sandbox: Sandbox, request: WriteFile) -> None:
    """Write the file, unless it holds the text already, as after a restart that repeats the request."""
    path, data = request.path, request.text.encode()
    if len(data) > MAX_WRITTEN:
        raise FileFailed("write", path, f"its text is larger than {MAX_WRITTEN} bytes")
    old = None if request.replaces is None else request.replaces.encode()
    await replace_file(sandbox, path, data, old)
