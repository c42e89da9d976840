"""From the tools that an MCP server lists to tools of ours; those that will not do are left out, and it is said why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CallToolResult, ToolAnnotations
from mcp.types import Tool as Listed

from agentrail.adapters.mcp.foreign_patterns import told
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.tool_results import result_of
from agentrail.errors import BadTool, NotJson
from agentrail.ports.tool import ToolContext
from agentrail.tools import EffectClass, ToolResult, ToolSpec, make_spec
from agentrail.values.json import JsonObject, freeze_object, weight
from agentrail.values.meter import Meter, TooManyStepsError

MAX_TOOLS: Final = 1_000
"""Tools of one server."""

MAX_SCHEMA: Final = 64 * 1024
"""Bytes of the schema of one tool."""

MAX_SCHEMAS: Final = 2 * 1024 * 1024
"""Bytes of the schemas of all tools of one server."""

PATTERN_STEPS: Final = 500_000
"""Steps for looking at the patterns in the schemas of one server: about half a second of a thread."""

MAX_DESCRIPTION: Final = 10_000
"""Characters of the description of one tool."""

MAX_UPDATE: Final = 1_000
"""Characters of one report of progress."""


class ServerCalls(Protocol):
    """Sends a call to the server, for as long as there is a connection."""

    async def __call__(
        self, name: str, args: JsonObject, effect: EffectClass, on_progress: ProgressFnT
    ) -> CallToolResult:
        """Return the answer; raise `ToolError` for what the model should know."""
        ...


class McpTool:
    """One tool of a server."""

    __slots__ = ("_call", "_theirs", "spec")

    def __init__(self, spec: ToolSpec, theirs: str, call: ServerCalls) -> None:
        self.spec = spec
        self._theirs = theirs
        self._call = call

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Call it at the server; its reports are passed on."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ASYNC124 - it is awaited
            of = "" if total is None else f" of {total:g}"
            ctx.report(f"{progress:g}{of}{f': {message}' if message else ''}"[:MAX_UPDATE])

        return result_of(await self._call(self._theirs, args, self.spec.effect, on_progress))


def adopt(server: McpServer, listed: Iterable[Listed], call: ServerCalls) -> tuple[list[McpTool], list[str]]:
    """Return the tools of *server* that can be used, and why others are left out."""
    found: dict[str, McpTool] = {}
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
        if spec.name in found or len(found) == MAX_TOOLS:
            problems.append(f"`{name}` is left out: there are {MAX_TOOLS} tools already, or one of that name")
            continue
        found[spec.name] = McpTool(spec, theirs.name, call)
    return list(found.values()), problems


def _schema(name: str, theirs: Listed, room: Meter, meter: Meter) -> JsonObject:
    schema = freeze_object(theirs.input_schema)
    size = weight(schema)
    if size > MAX_SCHEMA:
        raise BadTool(name, f"its schema has more than {MAX_SCHEMA} bytes")
    try:
        room.spend(size)
        return freeze_object(told(schema, meter))
    except TooManyStepsError:
        problem = (
            f"the schemas of its server have more than {MAX_SCHEMAS} bytes, or patterns that take too long to read"
        )
        raise BadTool(name, problem) from None


def _spec(server: McpServer, name: str, theirs: Listed, schema: JsonObject) -> ToolSpec:
    said = (theirs.description or "").strip() or (theirs.title or "").strip() or f"The tool `{theirs.name}`."
    return make_spec(
        name,
        said[:MAX_DESCRIPTION],
        schema,
        timeout=server.timeout,
        requires=server.requires,
        effect=_effect(theirs.annotations) if server.trust_hints else EffectClass.UNSAFE,
    )


def _effect(hints: ToolAnnotations | None) -> EffectClass:
    if hints is not None and hints.read_only_hint:
        return EffectClass.PURE
    if hints is not None and hints.idempotent_hint:
        return EffectClass.IDEMPOTENT
    return EffectClass.UNSAFE
