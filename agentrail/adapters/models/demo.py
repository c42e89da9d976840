"""The built-in offline model: it understands a few English phrases, and calls the tools that they ask for.

The instruction is the newest prompt or steering, cut at each `then` into steps. For each step the model makes one
call, reports its result, and goes on to the next step. Equal requests get equal responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, final

import trio

from agentrail.adapters.models.settings import read_settings
from agentrail.ports.model import EmitChunk
from agentrail.values.content import Data, Said, Text, Thinking, ToolCall
from agentrail.values.json import EMPTY, Json, JsonObject, canonical, freeze_object
from agentrail.values.messages import AssistantMessage, Message, Origin, StopReason, ToolMessage, UserMessage
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk, read_tokens, tokens
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Usage
from agentrail.values.value import Authored

MAX_PREPOSITION = 2
"""The most letters of a first word that is no verb, as in “in c.md, …”."""


class Phrase(NamedTuple):
    """A phrase that the model understands, and the tool that does what it asks for."""

    tool: str
    """Name of the tool."""
    does: str
    """What it does, in words that follow "I can"."""
    patterns: tuple[re.Pattern[str], ...]
    """The phrase, as regular expressions; their groups are slots, called like the arguments of the tool.

    They are compiled with the module, in the thread that imports it: a request would hold up the loop.
    """
    says: str
    """How a call is announced, after "I will", with the slots; what stands behind `|` is left out without a path."""
    example: str
    """A sentence that the introduction suggests to the user."""
    others: tuple[str, ...] = ()
    """Further sentences, which are on the page about the model: each other way to say it."""

    @property
    def words(self) -> frozenset[str]:
        """The verbs with which its sentences begin, and what it does."""
        first = [text.partition(" ")[0] for text in (self.does, self.example, *self.others)]
        return frozenset([word for word in first if len(word) > MAX_PREPOSITION])


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


_LIST = r"(?:(?:list|show)(?: me)?(?: all)?(?: the)? files(?: in )?|(?:ls|list) ?)(?P<path>(?<=in )\S.*|(?<= )\S+)?"
_WRITE = r"write (?P<content>.+) (?:in)?to (?P<path>\S+)"
_EDIT = r"(?:replace|change) (?P<old_text>.+) (?:with|by|to|into) (?P<new_text>.+) in (?P<path>\S+)"
_EDIT_FILE = (
    r"(?:edit|in) (?:the file )?(?P<path>\S+?)[:,]? (?:(?:and|to) )?"
    r"(?:replace|change) (?P<old_text>.+) (?:with|by|to|into) (?P<new_text>.+)"
)
_GREP = r"(?:search (?:files )?for|grep(?: for)?) (?P<pattern>.+?)(?: in (?P<path>\S+))?"
_GREP_IN = r"search (?:files )?(?:in )?(?:the file )?(?P<path>\S+) for (?P<pattern>.+)"
_FACT = r"remember (?:that )?(?P<fact>.+)"

PHRASES = (
    Phrase(
        "list_dir",
        "list files",
        (_pattern(_LIST),),
        "list the files| in {path}",
        "list the files in docs",
        ("list the files", "show me the files", "ls docs"),
    ),
    Phrase(
        "read_file",
        "read files",
        (_pattern(r"(?:read|cat|show me)(?: the file)? (?P<path>\S+)"),),
        "read {path}",
        "read README.md",
        ("read the file README.md", "show me README.md", "cat README.md"),
    ),
    Phrase(
        "write_file",
        "write files",
        (_pattern(_WRITE),),
        "write {content} to {path}",
        "write hello to notes.txt",
        ("write 'two words' into notes.txt",),
    ),
    Phrase(
        "edit_file",
        "edit files",
        (_pattern(_EDIT), _pattern(_EDIT_FILE)),
        "replace {old_text} with {new_text} in {path}",
        "replace a by b in c.md",
        (
            "change a to b in c.md",
            "edit c.md: replace a with b",
            "edit c.md and change a into b",
            "in c.md, replace a by b",
        ),
    ),
    Phrase(
        "grep",
        "search files",
        (_pattern(_GREP), _pattern(_GREP_IN)),
        "search for {pattern}| in {path}",
        "search for TODO in src",
        ("search for TODO", "search files for TODO", "search src for TODO", "grep TODO in src"),
    ),
    Phrase(
        "shell",
        "run commands",
        (_pattern(r"(?:run|execute) (?P<command>.+)"),),
        "run {command}",
        "run ls",
        ("execute ls docs",),
    ),
    Phrase(
        "remember",
        "remember facts",
        (_pattern(_FACT),),
        "remember {fact}",
        "remember that I like tea",
        ("remember my name is Ann",),
    ),
    Phrase("count", "count", (_pattern(r"count to (?P<to>\d+)"),), "count to {to}", "count to 20"),
)

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

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` for options that no provider takes: a session with a real model would not start."""
        read_settings(options)

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


class _Step(NamedTuple):
    """A step of the instruction, as far as the model understands it."""

    text: str
    phrase: Phrase | None = None
    slots: Mapping[str, str] = {}
    tool: ToolSpec | None = None  # that does it; `None` if there is none
    near: Phrase | None = None  # the phrase that begins with its first word, if it matches none


def respond(request: ModelRequest) -> Response:
    """Return the response to *request*: a report on new tool results, then the call for the next step, if any."""
    instruction, since = _instruction(request.messages)
    answers = [message for message in since if isinstance(message, AssistantMessage)]
    calls = [call for message in answers for call in message.calls]
    is_finished = bool(answers) and not answers[-1].calls and not answers[-1].interrupted
    all_steps = [_step_of(text, request.tools) for text in steps_of(instruction)]
    steps = [] if is_finished else _behind(all_steps, len(calls))
    sentences = [_report(result) for result in _unreported(since)]
    if not sentences and not any(step.phrase or step.near for step in steps):
        return _response(request, _NOTHING_LEFT if is_finished or calls else introduction(request.tools))
    for step in steps:
        if step.near is not None:
            sentences.append(f"I skip “{_shorten(step.text, 60)}”: to {step.near.does}, say “{step.near.example}”.")
        elif step.phrase is None:
            sentences.append(f"I skip “{_shorten(step.text, 60)}”, which this demo does not understand.")
        elif step.tool is None:
            sentences.append(_excuse(step.phrase, request.tools))
        elif not request.may_call:
            announcement = _announcement(step.phrase, step.slots)
            sentences.append(f"I would {announcement} with `{step.tool.name}`, but I may not call tools now.")
        else:
            sentences.append(f"{'Next, I' if sentences else 'I'} will {_announcement(step.phrase, step.slots)}.")
            thought = f"I am asked to {step.phrase.does}, and `{step.tool.name}` does that."
            call_id = f"demo-{_last_number(request.messages) + 1}"
            call = ToolCall("", step.tool.name, _args(step.slots, step.tool), call_id)
            return _response(request, " ".join(sentences), thought, call)
    return _response(request, " ".join(sentences))


def steps_of(text: str) -> list[str]:
    """Return the steps of *text*: it is cut at each `then` and at the ends of lines."""
    return [step for step in map(str.strip, _THEN.split(text, MAX_STEPS)) if step]


def introduction(tools: Sequence[ToolSpec]) -> str:
    """Return a sentence that tells the user what the demo model is, and what it can do with *tools*."""
    names = {spec.name for spec in tools}
    usable = [phrase._replace(does=f"{phrase.does} (`{phrase.tool}`)") for phrase in PHRASES if phrase.tool in names]
    usable = usable or [_phrase_for(spec) for spec in tools if _first_argument(spec) is not None]
    abilities = _list_names([phrase.does for phrase in usable or PHRASES])
    if not usable:
        return f"{_WHO}; I was given no tool that I know, but with the right ones I could {abilities}."
    return f"{_WHO}; with the tools I was given I can {abilities}, so try “{usable[0].example}”."


def _step_of(text: str, tools: Sequence[ToolSpec]) -> _Step:
    """Return the step *text*, with the phrase that it matches.

    One that fits every tool is its name, and the value of its first argument: `steeping green`.
    """
    specs = {spec.name: spec for spec in tools}
    polite = _POLITE.match(text)
    bare = _STOP.sub("", _STOP.sub("", text[polite.end() if polite else 0 :].strip()))
    named = [_phrase_for(spec) for spec in tools if _first_argument(spec) is not None and spec.name in bare]
    usable = [phrase for phrase in PHRASES if phrase.tool in specs]
    for phrase in (*usable, *named, *PHRASES):
        matches = (pattern.fullmatch(bare) for pattern in phrase.patterns)
        match = next(filter(None, matches), None)
        if match is not None:
            slots = {name: _unquote(slot) for name, slot in match.groupdict().items() if slot is not None}
            return _Step(text, phrase, slots, specs.get(phrase.tool))
    first = bare.partition(" ")[0].lower()
    return _Step(text, near=next((phrase for phrase in usable if first in phrase.words), None))


def _phrase_for(spec: ToolSpec) -> Phrase:
    """Return the phrase that is the name of a tool and the value of its first argument."""
    value = _plain(_object(_object(spec.parameters.get("properties")).get(_first_argument(spec) or "")))
    pattern = rf"(?:(?:use|call) )?`?{re.escape(spec.name)}`?(?: with)? (?P<first_argument>.+)"
    does = f"call `{spec.name}`"
    return Phrase(spec.name, does, (_pattern(pattern),), f"{does} with {{first_argument}}", f"{spec.name} {value}")


def _first_argument(spec: ToolSpec) -> str | None:
    """Return the name of the first argument of *spec*, if it is a text or a number; else `None`."""
    name, schema = next(iter(_object(spec.parameters.get("properties")).items()), (None, EMPTY))
    return name if _is_plain(schema) else None


def _is_plain(schema: Json) -> bool:
    """Whether *schema* is that of a text or a number."""
    return _object(schema).get("type") in {"string", "integer", "number"}


def _behind(steps: list[_Step], count: int) -> list[_Step]:
    """Return the *steps* behind those for which *count* calls were made."""
    indexes = [index for index, step in enumerate(steps) if step.tool is not None][:count]
    return steps[indexes[-1] + 1 :] if indexes else steps


def _unquote(slot: str) -> str:
    slot = slot.strip()
    return slot[1:-1] if len(slot) > 1 and slot[0] + slot[-1] in _QUOTES else slot


def _args(slots: Mapping[str, str], spec: ToolSpec) -> JsonObject:
    """Return *slots* as arguments for *spec*, with plain values for what it requires beside them.

    One of another name than its arguments have is the first of them that is a text or a number, and is no slot's own.
    """
    properties = _object(spec.parameters.get("properties"))
    free = [name for name in properties if name not in slots and _is_plain(properties[name])]
    args: dict[str, Json] = {}
    for slot, text in slots.items():
        name = slot if slot in properties else next(iter(free), None)
        if name is not None:
            args[name] = _parse_slot(text, _object(properties[name]).get("type"))
            free = [other for other in free if other != name]
    required = spec.parameters.get("required")
    for name in map(str, required) if isinstance(required, Sequence) else ():
        args.setdefault(name, _plain(_object(properties.get(name))))
    return freeze_object(args)


def _parse_slot(text: str, kind: Json) -> Json:
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


def _instruction(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return the newest prompt or steering, and the messages since; messages of plugins are no instructions."""
    for index in reversed(range(len(messages))):
        message = messages[index]
        if isinstance(message, UserMessage) and message.origin in {Origin.PROMPT, Origin.STEERING}:
            text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
            return text, messages[index + 1 :]
    return "", messages


def _unreported(since: Sequence[Message]) -> list[ToolMessage]:
    """Return the tool results that no complete response has reported yet."""
    results: list[ToolMessage] = []
    for message in since:
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AssistantMessage) and (message.calls or not message.interrupted):
            results = []
    return results


def _last_number(messages: Sequence[Message]) -> int:
    """Return the number in the id of the last call that this model made in the conversation."""
    calls = (call for message in messages if isinstance(message, AssistantMessage) for call in message.calls)
    matches = (_NUMBERED.fullmatch(call.provider_id) for call in calls)
    return max((int(match[1]) for match in matches if match is not None), default=0)


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
    says = phrase.says.replace("|", "") if "path" in slots else phrase.says.partition("|")[0]
    return says.format(**{slot: _quote(text) for slot, text in slots.items()})


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
