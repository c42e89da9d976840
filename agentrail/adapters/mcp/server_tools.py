r"""Turns the tools of an MCP server into tools of a session, and the server's answers into results of calls.

Unusable tools are left out, with the reason. Some regular expressions in a tool's schema cannot be checked here: those
in other dialects than Python's (`\p{L}`), and those with too many parts. They are removed from the schema and written
into the description for the model; the server checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import trio
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp.types import Tool as Listed

from agentrail.adapters.mcp.asked_back import AskedBack
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.server_calls import Method, ServerCall, ServerCalls
from agentrail.errors import BadTool, NotJson
from agentrail.ports.tool import ToolContext
from agentrail.tools import EffectClass, ToolResult, ToolSpec, make_spec, validator_for
from agentrail.values.content import Data, File, Image, Part, Text
from agentrail.values.json import Json, JsonObject, freeze, freeze_object, weight
from agentrail.values.patterns import UnusableError, count_parts
from agentrail.values.step_budget import Meter, TooManyStepsError
from agentrail.values.tools import Err, Ok, err
from agentrail.values.untrusted_content import MAX_IMAGE, MAX_IMAGES

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, not schemas."""

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "patternProperties"})
"""Keywords that hold an object of schemas, by names that the server chose."""


def plain_schema(schema: JsonObject, meter: Meter) -> dict[str, Json]:
    """Return *schema* with the patterns that cannot be checked here moved into the descriptions.

    Raise `TooManyStepsError` if looking at the patterns takes more steps than are left.
    """
    plain: dict[str, Json] = {}
    for keyword, value in schema.items():
        if keyword in _VALUES:
            plain[keyword] = value
        elif keyword in _NAMED and isinstance(value, Mapping):
            plain[keyword] = {name: _plain_schema(item, meter) for name, item in value.items()}
        else:
            plain[keyword] = _plain_schema(value, meter)
    pattern = plain.get("pattern")
    if isinstance(pattern, str) and not _is_usable(pattern, meter):
        del plain["pattern"]
        plain["description"] = f"{plain.get('description', '')} Must match `{pattern}`.".lstrip()
    keys = plain.get("patternProperties")
    if isinstance(keys, Mapping) and not all(_is_usable(key, meter) for key in keys):
        del plain["patternProperties"]
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            plain.pop(keyword, None)  # these keywords apply to keys that match no pattern, and the patterns are removed
    return plain


def _is_usable(pattern: str, meter: Meter) -> bool:
    try:
        meter.spend(PATTERN + count_parts(pattern))
    except UnusableError:
        return False
    return True


def _plain_schema(value: Json, meter: Meter) -> Json:
    if isinstance(value, Mapping):
        return plain_schema(value, meter)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_plain_schema(item, meter) for item in value)
    return value


MAX_PARTS: Final = 100
"""The most parts of a result that are kept; a text in place of the others says how many they were."""

MAX_TEXT: Final = 1_000_000
"""The most characters of one text that are kept; the limit of what the model sees is separate."""

MAX_STRUCTURED: Final = 64 * 1024
"""The most bytes of structured content of a result; larger content is left out, and a text says so."""

PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that models take."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def result_of(answer: CallToolResult) -> Ok | Err:
    """Return *answer* as a result; parts that are too large or that a model cannot use are replaced by a note."""
    parts = [_part(block) for block in answer.content[:MAX_PARTS]]
    if len(answer.content) > MAX_PARTS:
        parts.append(Text(f"[{len(answer.content) - MAX_PARTS} more parts are left out]"))
    structured: object = answer.structured_content
    data = None if structured is None else _freeze_structured(structured)
    if data is None and structured is not None:
        parts.append(Text(f"[structured content of more than {MAX_STRUCTURED} bytes, or no JSON, is left out]"))
    if data is not None and not parts:
        parts.append(Data(data))
    details: JsonObject | None = None if data is None else {"structured": data}
    result_type = Err if answer.is_error else Ok
    return result_type(
        tuple(parts) or (Text("the tool failed and does not say why" if answer.is_error else "done"),), details
    )


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent(text=text):
            return Text(_shorten(text))
        case ImageContent(data=data, mime_type=kind):
            return _image(kind, data)
        case AudioContent(data=data, mime_type=kind):
            return _note("a sound", kind, len(data))
        case ResourceLink(uri=uri, name=name):
            return Text(_shorten(f"[a link: {name}] {uri}"))
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return Text(_shorten(f"[{uri}]\n{text}"))
        case EmbeddedResource(resource=BlobResourceContents(blob=data, mime_type=str(kind), uri=uri)) if kind:
            return _image(kind, data) if kind in PICTURES else _file(kind, data, str(uri).rpartition("/")[2])
        case EmbeddedResource(resource=resource):
            return _note("a file", resource.mime_type or str(resource.uri), 0)


def _image(kind: str, data: str) -> Part:
    good = kind in PICTURES and len(data) <= MAX_IMAGE and _BASE64.fullmatch(data)
    return Image(kind, data) if good else _note("an image", kind, len(data))


def _file(kind: str, data: str, name: str) -> Part:
    good = len(data) <= MAX_IMAGES and _BASE64.fullmatch(data)
    return File(kind, data, name=name) if good else _note("a file", kind, len(data))


def _note(what: str, kind: str, length: int) -> Text:
    size = f", {length} characters of base64" if length else ""
    return Text(f"[{what} ({kind[:100]}{size}) is left out]")


def _shorten(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT} more characters are left out]"


def _freeze_structured(structured: object) -> Json:
    try:
        data = freeze(structured)
    except NotJson:
        return None
    return data if weight(data) <= MAX_STRUCTURED else None


MAX_TOOLS: Final = 1_000
"""The most tools of one server; others are left out."""

MAX_SCHEMA: Final = 64 * 1024
"""The most bytes of the schema of one tool; a tool with a larger one is left out."""

MAX_SCHEMAS: Final = 2 * 1024 * 1024
"""The most bytes of the schemas of all tools of one server; a tool whose schema exceeds it is left out."""

PATTERN_STEPS: Final = 50_000
"""The most steps for the patterns in the schemas of one server; they take about half a second in a thread."""

PATTERN: Final = 20
"""The steps that one pattern counts as, beside one for each of its parts."""

MAX_DESCRIPTION: Final = 10_000
"""The most characters of the description of one tool; the rest is cut."""

MAX_UPDATE: Final = 1_000
"""The most characters of one report of progress of a call; the rest is cut."""


class McpTool:
    """One tool of an MCP server, as a tool of a session."""

    __slots__ = ("_call", "_method", "_output", "_server", "_theirs", "spec")

    def __init__(
        self,
        spec: ToolSpec,
        server: str,
        theirs: str,
        call: ServerCalls,
        method: Method = "tools/call",
        output: object = None,
    ) -> None:
        self._method: Method = method
        self._output = output  # the server's schema of the structured content; `None` if it gave none
        self.spec = spec
        self._server = server
        self._theirs = theirs
        self._call = call

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Call the tool at the server; pass its progress on to subscribers, and its questions to a person."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ASYNC124 - it is awaited
            of = "" if total is None else f" of {total:g}"
            ctx.report(f"{progress:g}{of}{f': {message}' if message else ''}"[:MAX_UPDATE])

        questions = None
        if ctx.person_answer is not None:
            questions = AskedBack.stored(ctx.person_answer.state).answered(ctx.person_answer.answer)
            if questions.is_open:
                return questions.effect(self._server, self._theirs)
        name = str(args.get("uri")) if self._method == "resources/read" else self._theirs
        effect, method = self.spec.effect, self._method
        call = ServerCall(name, args, effect, ctx.call_id, ctx.turn, on_progress, questions, method)
        answer = await self._call(call)
        if isinstance(answer, AskedBack):
            return answer.effect(self._server, self._theirs)
        structured: object = answer.structured_content
        if self._output is None or structured is None or answer.is_error:
            return result_of(answer)
        misfit = await trio.to_thread.run_sync(self._misfit, structured)
        return err(misfit) if misfit else result_of(answer)

    def _misfit(self, structured: object) -> str:
        """Return why the content of a result does not fit the server's own schema; empty if it does."""
        try:
            check = validator_for(make_spec(self.spec.name, "What it returns.", freeze_object(self._output)))
            problem = check(freeze_object(structured))
        except (BadTool, NotJson) as error:
            problem = str(error)
        return f"the MCP server's result does not fit the schema that it gave: {problem}"[:1_000] if problem else ""


def adopt(server: McpServer, listed: Iterable[Listed], call: ServerCalls) -> tuple[list[McpTool], list[str]]:
    """Return the tools in *listed* that can be used, and for each other one the reason why it is left out."""
    tools: dict[str, McpTool] = {}
    problems: list[str] = []
    room, meter = Meter(MAX_SCHEMAS), Meter(PATTERN_STEPS)
    for theirs in listed:
        name = f"{server.name}__{theirs.name}"
        try:
            schema = _schema(name, theirs, room, meter)
            spec = _spec(server, name, theirs, schema)
        except (BadTool, NotJson) as error:
            problems.append(f"`{name[:100]}` is left out: {error}"[:500])
            continue
        if spec.name in tools or len(tools) == MAX_TOOLS:
            problems.append(f"`{name}` is left out: there are {MAX_TOOLS} tools already, or one of that name")
            continue
        tools[spec.name] = McpTool(spec, server.name, theirs.name, call, output=theirs.output_schema)
    return list(tools.values()), problems


def _schema(name: str, theirs: Listed, room: Meter, meter: Meter) -> JsonObject:
    schema = freeze_object(theirs.input_schema)
    size = weight(schema)
    if size > MAX_SCHEMA:
        raise BadTool(name, f"its schema has more than {MAX_SCHEMA} bytes")
    try:
        room.spend(size)
        return freeze_object(plain_schema(schema, meter))
    except TooManyStepsError:
        problem = (
            f"the schemas of its server have more than {MAX_SCHEMAS} bytes, or patterns that take too long to read"
        )
        raise BadTool(name, problem) from None


def _spec(server: McpServer, name: str, theirs: Listed, schema: JsonObject) -> ToolSpec:
    description = (theirs.description or "").strip() or (theirs.title or "").strip() or f"The tool `{theirs.name}`."
    return make_spec(
        name,
        description[:MAX_DESCRIPTION],
        schema,
        timeout=server.timeout,
        requires=server.requires,
        deferred=server.deferred,
        effect=_effect(theirs.annotations) if server.trust_hints else EffectClass.UNSAFE,
    )


def _effect(hints: ToolAnnotations | None) -> EffectClass:
    if hints is not None and hints.read_only_hint:
        return EffectClass.PURE
    if hints is not None and hints.idempotent_hint:
        return EffectClass.IDEMPOTENT
    return EffectClass.UNSAFE
