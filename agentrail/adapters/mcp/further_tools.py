"""Tools for what an MCP server has beside its tools: one to list its resources, one to read them, one for each prompt.

A prompt is chosen by a person, who types `/server:prompt`. Its text is the result of a call, so that plugins see it,
and its words are never taken for those of the person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp.types import Prompt

from agentrail.adapters.mcp.server import PROMPT, McpServer
from agentrail.adapters.mcp.server_calls import Method, ServerCalls
from agentrail.adapters.mcp.server_tools import MAX_DESCRIPTION, McpTool
from agentrail.errors import BadTool, NotJson
from agentrail.tools import EffectClass, make_spec
from agentrail.values.json import EMPTY, Json, JsonObject, freeze_object

MAX_ARGUMENTS: Final = 50
"""The most arguments of a prompt; one with more is left out."""

_URI: Final = freeze_object(
    {
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "URI of the resource, also of a link in a result."}},
        "required": ["uri"],
    }
)


def further_tools(
    server: McpServer, prompts: Sequence[Prompt], call: ServerCalls, *, has_resources: bool
) -> list[McpTool]:
    """Return the tools for the resources and *prompts* of *server*; what makes no tool is left out."""
    tools: list[McpTool] = []
    if has_resources:
        lists = f"List the resources of the server `{server.name}`, with their URIs."
        reads = f"Read a resource of the server `{server.name}`."
        tools += _tool(server, "list_resources", lists, EMPTY, call, "resources/list")
        tools += _tool(server, "read_resource", reads, _URI, call, "resources/read")
    for prompt in prompts:
        words = (prompt.description or prompt.title or "").strip()
        asked_for = f"Get the prompt `{prompt.name}` of the server `{server.name}`, if the person asks for it."
        parameters = _parameters(prompt)
        if parameters is not None:
            tools += _tool(server, prompt.name, f"{asked_for} {words}", parameters, call, "prompts/get")
    return tools


def _parameters(prompt: Prompt) -> JsonObject | None:
    arguments = prompt.arguments or []
    if len(arguments) > MAX_ARGUMENTS:
        return None
    properties: dict[str, Json] = {
        argument.name: {"type": "string", "description": (argument.description or "")[:MAX_DESCRIPTION]}
        for argument in arguments
    }
    required = [argument.name for argument in arguments if argument.required]
    return freeze_object({"type": "object", "properties": properties, "required": required})


def _tool(
    server: McpServer, name: str, description: str, parameters: JsonObject, call: ServerCalls, method: Method
) -> list[McpTool]:
    """Return the tool as a list; empty if its name or schema cannot be one."""
    is_prompt = method == "prompts/get"
    try:
        spec = make_spec(
            f"{server.name}__{PROMPT if is_prompt else ''}{name}",
            description[:MAX_DESCRIPTION],
            parameters,
            timeout=server.timeout,
            requires=server.requires,
            deferred=is_prompt or server.deferred,
            effect=EffectClass.PURE if server.trust_hints else EffectClass.UNSAFE,
        )
    except (BadTool, NotJson):
        return []
    return [McpTool(spec, server.name, name, call, method)]
