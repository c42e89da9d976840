"""The built-in offline model: it understands a few English phrases, and calls the tools that they ask for.

The instruction is the newest prompt or steering, cut at each `then` into steps. For each step the model makes one
call, reports its result, and goes on to the next step. Equal requests get equal responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import final

import trio

from agentrail.ports.model import EmitChunk
from agentrail.values.content import Data, Said, Text, Thinking, ToolCall
from agentrail.values.json import EMPTY, Json, JsonObject, canonical, freeze_object
from agentrail.values.messages import AssistantMessage, Message, Origin, StopReason, ToolMessage, UserMessage
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk, read_tokens, tokens
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Usage
from agentrail.values.value import Authored, Value


class Phrase(Value, gc=True):
    """A phrase that the model understands, and the tools that do what it asks for."""

    pattern: re.Pattern[str]
    """The phrase; its groups are slots, which become the arguments of the call."""
    tools: tuple[str, ...]
    """The usual names of such a tool; an earlier one is preferred."""
    does: str
    """What such a tool does, in words that follow "I can"."""
    announces: Mapping[str, str]
    """How a call is announced, after "I will": the verb (key `""`), then what is said of each slot that is named."""
    example: str
    """A sentence that the introduction suggests to the user."""


def _phrase(pattern: str, tools: str, does: str, announces: dict[str, str], example: str) -> Phrase:
    return Phrase(re.compile(pattern, re.IGNORECASE | re.DOTALL), tuple(tools.split()), does, announces, example)


PHRASES = (
    _phrase(
        r"(?:list|show)(?: me)?(?: all)?(?: the)? files(?: in (?P<path>.+))?|(?:ls|list)(?: (?P<folder>\S+))?",
        "list_dir list_files ls",
        "list files",
        {"": "list the files", "path": "in {}"},
        "list the files in docs",
    ),
    _phrase(
        r"(?:read|cat|show me) (?P<path>\S+)",
        "read_file cat",
        "read files",
        {"": "read", "path": "{}"},
        "read README.md",
    ),
    _phrase(
        r"write (?P<text>.+) (?:in)?to (?P<path>\S+)",
        "write_file",
        "write files",
        {"": "write", "text": "{}", "path": "to {}"},
        "write hello to notes.txt",
    ),
    _phrase(
        r"replace (?P<old>.+) (?:with|by) (?P<new>.+) in (?P<path>\S+)",
        "edit_file",
        "edit files",
        {"": "replace", "old": "{}", "new": "with {}", "path": "in {}"},
        "replace hello with bye in notes.txt",
    ),
    _phrase(
        r"(?:search for|grep) (?P<pattern>.+?)(?: in (?P<path>\S+))?",
        "grep search",
        "search files",
        {"": "search for", "pattern": "{}", "path": "in {}"},
        "search for TODO in src",
    ),
    _phrase(
        r"(?:run|execute) (?P<command>.+)",
        "shell run bash execute",
        "run commands",
        {"": "run", "command": "{}"},
        "run ls",
    ),
    _phrase(
        r"remember (?:that )?(?P<fact>.+)",
        "remember save_memory note",
        "remember facts",
        {"": "remember", "fact": "{}"},
        "remember that I like tea",
    ),
    _phrase(r"count to (?P<number>\d+)", "count count_to", "count", {"": "count", "number": "to {}"}, "count to 20"),
)

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "path": ("path", "filepath", "file", "dir", "directory", "folder", "filename"),
    "text": ("content", "contents", "text"),
    "pattern": ("pattern", "query", "regex"),
    "command": ("command", "cmd"),
    "fact": ("fact", "text", "note"),
    "number": ("to", "number", "n", "limit"),
    "old": ("old", "oldstring", "oldtext"),
    "new": ("new", "newstring", "newtext"),
}
"""The usual names of the parameter of each slot, the likeliest first, in lower case and without `_`."""

ARGUMENT = "argument"
"""The slot whose text is the first argument of any tool."""

MAX_STEPS = 20
"""How often an instruction is cut into steps at most; what follows is one step."""

MAX_RESULT = 300
"""The most characters of a tool result that a response quotes."""

# A run of spaces is matched only from its start, and possessively: otherwise, a run of 20,000 takes a second.
_THEN = re.compile(r"(?<!\s)[,;.]?\s++(?:and\s++)?then\s|\n", re.IGNORECASE)
_POLITE = re.compile(r"(?:(?:please|now|first|finally|(?:can|could|would) you)\b[\s,]*)*", re.IGNORECASE)
_STOP = re.compile(r"(?<=[\w)\]'\"`*])[.!?,]+$|(?<!\s)\s++please[.!?]*$", re.IGNORECASE)
_QUOTES = ("``", '""', "''", "“”")
_PLAIN: Mapping[str, Json] = {"string": "demo", "integer": 1, "number": 1, "boolean": False, "array": (), "object": {}}
_WORD = re.compile(r"\s*\S+\s*")
_NAMED = re.compile(r"(?:(?:use|call) )?`?(?P<name>[\w.-]+)`?(?: with)? (?P<value>.+)", re.IGNORECASE | re.DOTALL)
_INTEGER = re.compile(r"-?\d{1,15}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}\.\d{1,15}", re.ASCII)
_NUMBERED = re.compile(r"demo-(\d+)")
_DENIED = re.compile(
    r"\b(?:not (?:allowed|permitted|approved)|denied|refused|rejected|blocked|forbidden)\b", re.IGNORECASE
)
_WHO = "I am the built-in demo model: there is no real language model behind me, only a table of phrases"
_NOTHING_LEFT = "This demo has nothing left to do; ask for something else."


@final
class DemoModel(Authored):
    """The built-in offline model: it is deterministic and needs no API key."""

    delay: float = 0.02
    """Seconds to sleep before each chunk; with 0 other tasks run in between, without a delay."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return "demo"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Pass the response to *request* to *emit* in chunks, a thought whole and text word by word, and return it."""
        response = respond(request)
        for chunk in chunks_of(response):
            await trio.sleep(self.delay)
            emit(chunk)
        return response


def chunks_of(response: Response) -> Iterator[Chunk]:
    """Yield the chunks of *response*: each thought whole, each text in words with their spaces."""
    for part in response.parts:
        if isinstance(part, Thinking):
            yield ThinkingChunk(part.text)
        else:
            yield from map(TextChunk, _WORD.findall(part.text))


def respond(request: ModelRequest) -> Response:
    """Return the response to *request*: a report on new tool results, then the call for the next step, if any."""
    instruction, since = _instruction(request.messages)
    answers = [message for message in since if isinstance(message, AssistantMessage)]
    calls = [call for message in answers for call in message.calls]
    is_finished = bool(answers) and not answers[-1].calls and not answers[-1].interrupted
    steps = [] if is_finished else _remaining_steps(steps_of(instruction), calls, request.tools)
    sentences = [_report(result) for result in _unreported(since)]
    if not sentences and not any(_phrase_of(step, request.tools) for step in steps):
        has_begun = is_finished or bool(calls)
        return _response(request, _NOTHING_LEFT if has_begun else introduction(request.tools))
    for step in steps:
        match = _phrase_of(step, request.tools)
        if match is None:
            sentences.append(f"I skip “{_shorten(step, 60)}”, which this demo does not understand.")
            continue
        phrase, slots = match
        spec = _tool_for(phrase, request.tools)
        if spec is None:
            sentences.append(_excuse(phrase, request.tools))
        elif not request.may_call:
            sentences.append(
                f"I would {_announcement(phrase, slots)} with `{spec.name}`, but I may not call tools now."
            )
        else:
            sentences.append(f"{'Next, I' if sentences else 'I'} will {_announcement(phrase, slots)}.")
            thought = f"I am asked to {phrase.does}, and `{spec.name}` does that."
            call = ToolCall("", spec.name, _args(slots, spec), f"demo-{_last_number(request.messages) + 1}")
            return _response(request, " ".join(sentences), thought, call)
    return _response(request, " ".join(sentences))


def steps_of(text: str) -> list[str]:
    """Return the steps of *text*: it is cut at each `then` and at the ends of lines."""
    return [step for step in map(str.strip, _THEN.split(text, MAX_STEPS)) if step]


def introduction(tools: Sequence[ToolSpec]) -> str:
    """Return a sentence that tells the user what the demo model is, and what it can do with *tools*."""
    usable = [(phrase, spec.name) for phrase in PHRASES if (spec := _tool_for(phrase, tools)) is not None]
    if not usable:
        usable = [(_phrase_for(spec), spec.name) for spec in tools if _first_argument(spec) is not None]
        if usable:
            names = _list_names([f"`{name}`" for _, name in usable])
            return f"{_WHO}; with the tools I was given I can call {names}, so try “{usable[0][0].example}”."
        abilities = _list_names([phrase.does for phrase in PHRASES])
        return f"{_WHO}; I was given no tool that I know, but with the right ones I could {abilities}."
    abilities = _list_names([f"{phrase.does} (`{name}`)" for phrase, name in usable])
    return f"{_WHO}; with the tools I was given I can {abilities}, so try “{usable[0][0].example}”."


def _phrase_of(step: str, tools: Sequence[ToolSpec]) -> tuple[Phrase, dict[str, str]] | None:
    """Return the phrase that *step* matches, with the texts of its slots; `None` if it matches no phrase.

    One that fits every tool is its name, and the value of its first argument: `steeping green`.
    """
    polite = _POLITE.match(step)
    bare = _STOP.sub("", _STOP.sub("", step[polite.end() if polite else 0 :].strip()))
    for phrase in PHRASES:
        match = phrase.pattern.fullmatch(bare)
        if match is not None:
            slots = {name: _unquote(slot) for name, slot in match.groupdict().items() if slot is not None}
            if "folder" in slots:
                slots["path"] = slots.pop("folder")
            return phrase, slots
    named = _NAMED.fullmatch(bare)
    spec = None if named is None else next((spec for spec in tools if spec.name == named["name"]), None)
    if named is None or spec is None or _first_argument(spec) is None:
        return None
    return _phrase_for(spec), {ARGUMENT: _unquote(named["value"])}


def _phrase_for(spec: ToolSpec) -> Phrase:
    """Return the phrase that is the name of a tool and the value of its first argument."""
    value = _plain(_object(_object(spec.parameters.get("properties")).get(_first_argument(spec) or "")))
    announces = {"": f"call `{spec.name}`", ARGUMENT: "with {}"}
    return Phrase(_NAMED, (spec.name,), f"call `{spec.name}`", announces, f"{spec.name} {value}")


def _first_argument(spec: ToolSpec) -> str | None:
    """Return the name of the first argument of *spec*, if it is a text or a number; else `None`."""
    name, schema = next(iter(_object(spec.parameters.get("properties")).items()), (None, EMPTY))
    return name if _object(schema).get("type") in {"string", "integer", "number"} else None


def _remaining_steps(steps: list[str], calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> list[str]:
    """Return the *steps* after those that *calls* were made for; a call of an unknown tool counts for the next step."""
    for call in calls:
        phrases = [_phrase_of(step, tools) for step in steps]
        index = next((n for n, match in enumerate(phrases) if match and call.name in match[0].tools), 0)
        steps = steps[index + 1 :]
    return steps


def _unquote(slot: str) -> str:
    slot = slot.strip()
    return slot[1:-1] if len(slot) > 1 and slot[0] + slot[-1] in _QUOTES else slot


def _tool_for(phrase: Phrase, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    specs = {spec.name: spec for spec in tools}
    return next((specs[name] for name in phrase.tools if name in specs), None)


def _args(slots: Mapping[str, str], spec: ToolSpec) -> JsonObject:
    """Return *slots* as arguments for *spec*, with plain values for what it requires beside them."""
    properties = _object(spec.parameters.get("properties"))
    names = {name.lower().replace("_", ""): name for name in properties}
    args: dict[str, Json] = {}
    for slot, text in slots.items():
        usual_names = PARAMETERS.get(slot, ())
        name = next((names[usual] for usual in usual_names if usual in names and names[usual] not in args), None)
        if slot == ARGUMENT:
            name = _first_argument(spec)
        if name is not None:
            args[name] = _parse_slot(text, _object(properties[name]).get("type"))
    required = spec.parameters.get("required")
    for name in map(str, required) if isinstance(required, Sequence) else ():
        args.setdefault(name, _plain(_object(properties.get(name))))
    return freeze_object(args)


def _parse_slot(text: str, kind: Json) -> Json:
    if kind == "array":
        return (text,)
    if kind in {"integer", "number"} and _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if kind == "number" and _DECIMAL.fullmatch(text) else text


def _plain(schema: JsonObject) -> Json:
    """Return a plain value that *schema* probably accepts, for a required argument that the phrase does not name."""
    choices, kind = schema.get("enum"), schema.get("type")
    if "default" in schema:
        return schema["default"]
    if isinstance(choices, Sequence) and choices:
        return choices[0]
    return schema.get("minimum", _PLAIN[kind]) if isinstance(kind, str) and kind in _PLAIN else None


def _object(schema: Json) -> JsonObject:
    return schema if isinstance(schema, Mapping) else EMPTY


def _instruction(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the newest prompt or steering, and the messages since; messages of plugins are no instructions."""
    since: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin in {Origin.PROMPT, Origin.STEERING}:
            return "\n".join(part.text for part in message.parts if isinstance(part, Text)), since[::-1]
        since.append(message)
    return "", since[::-1]


def _unreported(since: Sequence[Message]) -> list[ToolMessage]:
    """Return the tool results that no complete response has reported yet."""
    results: list[ToolMessage] = []
    for message in reversed(since):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AssistantMessage) and (message.calls or not message.interrupted):
            break
    return results[::-1]


def _last_number(messages: Sequence[Message]) -> int:
    """Return the number in the id of the last call that this model made in the conversation."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for call in reversed(message.calls):
                if numbered := _NUMBERED.fullmatch(call.provider_id):
                    return int(numbered[1])
    return 0


def _report(result: ToolMessage) -> str:
    text = "\n".join(
        part.text if isinstance(part, Text) else canonical(part.data) if isinstance(part, Data) else "(an image)"
        for part in result.parts
    )
    quote = f"“{_shorten(text, MAX_RESULT)}”" if text.strip() else "nothing"
    if not result.is_error:
        return f"`{result.name}` answered: {quote}."
    return f"`{result.name}` {'was not allowed' if _DENIED.search(text) else 'failed'}: {quote}."


def _excuse(phrase: Phrase, tools: Sequence[ToolSpec]) -> str:
    have = (
        f"all I was given is {_list_names([f'`{spec.name}`' for spec in tools])}" if tools else "I was given no tools"
    )
    return f"I understand that I should {phrase.does}, but I have no tool for that: {have}."


def _announcement(phrase: Phrase, slots: Mapping[str, str]) -> str:
    mentions = [says.format(_quote(slots[slot])) for slot, says in phrase.announces.items() if slot in slots]
    return " ".join([phrase.announces[""], *mentions])


def _shorten(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _quote(text: str) -> str:
    line = _shorten(text, 60)
    return f"“{line}”" if "`" in line else f"`{line}`"


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _response(request: ModelRequest, text: str, thought: str = "", call: ToolCall | None = None) -> Response:
    parts: tuple[Said, ...] = (Thinking(thought), Text(text)) if thought else (Text(text),)
    calls = () if call is None else (call,)
    chars = len(text) + len(thought) + sum(len(call.name) + len(canonical(call.args)) for call in calls)
    return Response(
        parts,
        calls,
        StopReason.TOOL_CALLS if calls else StopReason.END,
        Usage(read_tokens(request), tokens(chars), reasoning_tokens=tokens(len(thought)), estimated=True),
    )
