"""`as_test`: writes a request of a recorded session, with what led to it and its answer, as a test to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.insight.seen_request import ADDED, HISTORY, REPLACED, Seen
from agentrail.insight.session_backtest import Parting
from agentrail.testing.as_code import CodeSource, quoted
from agentrail.testing.ruling_tests import ruling_test
from agentrail.values.argument_checks import checked
from agentrail.values.content import Said, Text, Thinking, ToolCall, text_of
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage, is_prompt
from agentrail.values.stream import Response
from agentrail.values.tools import Err, Ok

OF_SESSION: Final = frozenset({FINDER, CALLER})
"""Tools that a session adds itself."""

_NO_ANSWER: Final = 'say("…")'
"""Ends a turn that had ended without an answer."""

_PLAY: Final = '''\
class ToolOfThen:
    """A tool that takes any arguments and returns what it returned then, or `done` if it was not called so."""

    def __init__(self, name: str, calls: list[tuple[str, JsonObject]]) -> None:
        self.spec = ToolSpec(name, "A tool of then.", parallel=False)
        self.calls = calls
        self.results = [row[1:] for row in RESULTS if row[0] == name]

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        self.calls.append((self.spec.name, args))
        for row in self.results:
            if row[0] == args:
                self.results.remove(row)
                return row[1]
        return ok("done")


async def play() -> tuple[str, list[tuple[str, JsonObject]]]:
    """Play the conversation; return the text of the last turn, and the calls that ran in all of them."""
    text = ""
    calls: list[tuple[str, JsonObject]] = []
    tools = [ToolOfThen(name, calls) for name in TOOLS]
    spec = SessionSpec(model=ScriptedModel(SCRIPT), tools=tools, plugins=PLUGINS, system=SYSTEM, environment=False)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        for prompt in PROMPTS:
            text = (await session.ask(prompt)).text
    return text, calls
'''


@checked
def as_test(subject: Seen | Parting) -> str | None:
    """Return a module with a test for pytest: of a request that a model saw, or of where a back-test parts.

    Of a request, it is the conversation up to there, and what was answered then: the answers of the model are the
    script of a `ScriptedModel`, tools return what they returned then, and the test says what came of the answer, the
    calls that ran and the text. It is to be given the plugins that are tested. Of a part, it is the plugins of the
    candidate with the states that they had, what they were shown, and how they ruled. Return `None` if no response has
    come to the request, or if the part is of no hook, or of one that went on after a pause.
    """
    if isinstance(subject, Parting):
        return ruling_test(subject)
    return None if subject.response is None else "\n".join(_TestText(subject, subject.response).lines())


class _TestText:
    """The parts of the test for one request."""

    def __init__(self, sight: Seen, response: Response) -> None:
        self._sight = sight
        self._response = response
        self._source = CodeSource()
        self._prompts: list[str] = []
        self._script: list[str] = []
        self._results: list[tuple[ToolCall, str]] = []
        self._is_open = False
        """Whether the last turn has not got its answer yet."""
        messages = [part.message for part in sight.parts if part.layer in (HISTORY, REPLACED)]
        self._messages = [message for message in messages if message is not None]
        first = next((index for index, message in enumerate(self._messages) if is_prompt(message)), 0)
        self._left_out = list(self._notes(self._messages[:first]))
        self._messages = self._messages[first:]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the module."""
        response, row, source = self._response, self._sight.sent, self._source
        self._replay()
        answer = self._say(response.parts, response.calls)
        self._script.append(f"{answer},  # what it answered in round {row.number}")
        if response.calls:
            self._script.append(f"{_NO_ANSWER},  # the end of the turn, which is not of this round")
        plain = [call for call in (*self._called(), *response.calls) if call.name not in OF_SESSION]
        calls = [f"({quoted(call.name)}, {source.code(call.args)})" for call in plain]
        tools = [tool.name for tool in self._sight.request.tools if tool.name not in OF_SESSION]
        names = dict.fromkeys((*tools, *[call.name for call in plain]))
        results = [f"({quoted(call.name)}, {source.code(call.args)}, {result})" for call, result in self._results]
        text = quoted("…") if response.calls else quoted(text_of(response.parts))
        body = [
            f"SYSTEM = {quoted(self._sight.request.system)}",
            *_listed("PROMPTS: list[PromptContent]", [f"{prompt}," for prompt in self._prompts]),
            *_listed("SCRIPT: list[Element]", self._script),
            *_listed("TOOLS: list[str]", [f"{quoted(name)}," for name in names]),
            *_listed("RESULTS: list[tuple[str, JsonObject, ToolResult]]", [f"{result}," for result in results]),
            "PLUGINS: list[AnyPlugin] = []",
            '"""Those that are to be tested."""',
            "",
            "",
            *_PLAY.splitlines(),
            "",
            "",
            f"def test_round_{row.number}() -> None:",
            "    text, calls = trio.run(play)",
            f"    assert text == {text}",
            *_listed("    assert calls ==", [f"{call}," for call in calls], equals=False),
            "",
        ]
        yield from self._head()
        yield from self._imports()
        yield ""
        yield from body

    def _head(self) -> Iterator[str]:
        """Yield the docstring of the module."""
        row = self._sight.sent
        yield f'"""Round {row.number} of a session as a test: what was said until then, and what the model answered.'
        yield ""
        yield f"It is record {row.record}, request {row.request_id} to {_plain(row.model)}."
        passing = [f"what {_plain(', '.join(part.by))} added" for part in self._sight.parts if part.layer == ADDED]
        for what in dict.fromkeys([*self._left_out, *passing]):
            yield f"Left out: {what}."
        yield '"""'
        yield ""

    def _imports(self) -> Iterator[str]:
        """Yield the imports that the text needs."""
        source = self._source
        for module, names in {
            "agentrail": ("SessionSpec", "open_supervisor"),
            "agentrail.testing": ("ScriptedModel", "say"),
            "agentrail.testing.scripted": ("Element",),
            "agentrail.tools": ("ToolContext", "ToolResult", "ToolSpec", "ok"),
            "agentrail.plugins": ("AnyPlugin",),
            "agentrail.values.content": ("PromptContent",),
            "agentrail.values.json": ("JsonObject",),
        }.items():
            for name in names:
                source.wants(module, name)
        moved = source.imports.get("agentrail.values.tools", set()) & {"Ok", "Err"}
        source.imports.get("agentrail.values.tools", set()).difference_update(moved)
        for name in moved:
            source.wants("agentrail.tools", name)
        source.imports = {module: names for module, names in source.imports.items() if names}
        yield "from __future__ import annotations"
        yield ""
        yield "import trio"
        yield ""
        yield from source.lines()

    def _replay(self) -> None:
        """Write what led to the request: prompts, answers of the model, and results of tools."""
        calls: dict[str, ToolCall] = {}
        for message in self._messages:
            match message:
                case UserMessage() if is_prompt(message):
                    if self._is_open:
                        self._script.append(f"{_NO_ANSWER},  # this turn ended without an answer")
                    self._is_open = True
                    self._prompts.append(self._prompt(message))
                case AssistantMessage():
                    calls.update({call.call_id: call for call in message.calls})
                    self._script.append(f"{self._say(message.parts, message.calls)},")
                    self._is_open = bool(message.calls)
                case ToolMessage():
                    self._note_result(message, calls.get(message.call_id))
                case _:
                    self._left_out.extend(self._notes([message]))

    def _prompt(self, message: UserMessage) -> str:
        match message.parts:
            case (Text(text=text),):
                return quoted(text)
            case parts:
                return f"[{', '.join(map(self._source.code, parts))}]"

    def _say(self, parts: Iterable[Said], calls: Iterable[ToolCall]) -> str:
        """Return the element of a script that answers so."""
        contents = list(parts)
        thinking = "".join([part.text for part in contents if isinstance(part, Thinking)])
        arguments = [quoted(text)] if (text := text_of(contents)) else []
        if thinking:
            arguments.append(f"thinking={quoted(thinking)}")
        elements = [f"call({quoted(call.name)}, {self._source.plain(call.args)})" for call in calls]
        if elements:
            self._source.wants("agentrail.testing", "call")
            arguments.append(f"calls=[{', '.join(elements)}]")
        return f"say({', '.join(arguments)})"

    def _note_result(self, message: ToolMessage, call: ToolCall | None) -> None:
        if call is None or call.name in OF_SESSION:
            return
        self._results.append((call, self._source.code((Err if message.is_error else Ok)(message.parts))))

    def _called(self) -> Iterator[ToolCall]:
        """Yield the calls that got a result."""
        return (call for call, _ in self._results)

    @staticmethod
    def _notes(messages: Iterable[Message]) -> Iterator[str]:
        """Yield what is said of messages that nobody can send by a prompt."""
        for message in messages:
            kind = message.origin.value if isinstance(message, UserMessage) else "message before the first prompt"
            yield f"a {kind} ({_plain(message.text)[:60]})"


def _listed(name: str, items: list[str], *, equals: bool = True) -> Iterator[str]:
    """Yield the lines of a list that is given a *name*."""
    indent = " " * (len(name) - len(name.lstrip()))
    mark = " =" if equals else ""
    if not items:
        yield f"{name}{mark} []"
        return
    yield f"{name}{mark} ["
    yield from (f"{indent}    {item}" for item in items)
    yield f"{indent}]"


def _plain(text: str) -> str:
    """Return *text* in one line, without what would end a docstring or hide in it."""
    return re.sub(r"[^\w .,:;!?()/@<>=+-]", "?", " ".join(text.split()))
