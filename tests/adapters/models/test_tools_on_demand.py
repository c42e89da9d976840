"""Tools on demand in each wire format: what their definitions cost, and that the beginning stays when one is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise, product
from random import Random
from typing import Final, cast

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import EventReader
from agentrail.core.tools_on_demand import FINDER, best, declared
from agentrail.errors import BadModelOptions
from agentrail.models import PROVIDERS, AssistantMessage, Json, JsonObject, ModelRequest, ToolCall
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ToolSpec, ok
from agentrail.values.stream import tokens
from tests.adapters.models.goldens import OWN, SEARCHING
from tests.adapters.models.official import SEARCHED
from tests.adapters.models.prefixes import flat
from tests.kit import EMPTY, Element, freeze_object, thaw

VERBS: Final = ("create", "delete", "find", "list", "merge", "move", "read", "rename", "share", "update")
NOUNS: Final = ("branch", "calendar", "card", "channel", "event", "file", "issue", "label", "mail", "project")
SERVERS: Final = ("hub", "desk", "drive")
MARKS: Final = freeze_object({"cache": False})
"""Options without marks for the prompt cache, which wander with the last message and are no part of the prompt."""


def specs(*, deferred: bool, count: int = 300) -> list[ToolSpec]:
    """Return the specs of tools as servers for work with files, mail and issues have them: some 600 characters each."""
    chance = Random(1)
    found: list[ToolSpec] = []
    for server in SERVERS:
        for verb in VERBS:
            for noun in NOUNS:
                fields = {
                    name: {
                        "type": "string",
                        "description": f"The {name} of the {noun} to {verb}, as the {server} has it.",
                    }
                    for name in chance.sample(("id", "title", "owner", "folder", "since", "until", "state"), 4)
                }
                schema: dict[str, object] = {"type": "object", "properties": fields, "required": [*fields][:2]}
                said = f"{verb.capitalize()} a {noun} in the {server}. Give at least {' and '.join([*fields][:2])}."
                found.append(ToolSpec(f"{server}__{verb}_{noun}", said, freeze_object(schema), deferred=deferred))
    return found[:count]


class Working:
    """A tool that works."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        return ok("done")


def body_of(provider: str, request: ModelRequest, options: JsonObject = EMPTY) -> dict[str, Json]:
    wire, own = format_of(PROVIDERS[provider]), OWN[provider].partition(":")[2]
    return dict(wire.render(request, provider, own, read_settings(options)).body)


def thawed(provider: str, request: ModelRequest, options: JsonObject = EMPTY) -> Mapping[str, object]:
    return cast("Mapping[str, object]", thaw(freeze_object(body_of(provider, request, options))))


def definitions(provider: str, request: ModelRequest) -> int:
    """Return about how many tokens the definitions of the tools of *request* have."""
    return tokens(len(json.dumps(flat(thawed(provider, request))["tools"])))


def both(provider: str) -> tuple[int, int]:
    """Return the tokens of the definitions of 300 tools, and of what is left of them if all are deferred."""
    whole, late = specs(deferred=False), specs(deferred=True)
    before = definitions(provider, ModelRequest("", (), tools=tuple(whole)))
    return before, definitions(provider, ModelRequest("", (), tools=declared(late), deferred=tuple(late)))


@pytest.mark.parametrize("provider", OWN)
def test_the_definitions_of_300_tools_are_left_out(provider: str) -> None:
    before, after = both(provider)
    assert after <= 0.15 * before


def prefix(provider: str, request: ModelRequest, options: JsonObject) -> str:
    """Return what *provider* reads of *request*, in the order in which it caches: tools, system prompt, messages."""
    body = flat(thawed(provider, request, options))
    system = [body.get(name) for name in ("system", "instructions", "systemInstruction")]
    (messages,) = (body[name] for name in ("messages", "input", "contents") if name in body)
    whole = json.dumps([body["tools"], system, messages])
    return whole.rstrip("]}")


SCRIPT: Final[tuple[Element, ...]] = (
    say(calls=[call("hub__create_branch", {"id": "1", "title": "a"})]),
    say(calls=[call("find_tools", {"query": "share a calendar"})]),
    say(calls=[call("call_tool", {"name": "drive__share_calendar", "arguments": {}})]),
    "one",
    say(calls=[call("find_tools", {"query": "desk__merge_issue"}), call("find_tools", {"query": "label mail"})]),
    "two",
)


@pytest.mark.parametrize(
    ("provider", "options"),
    [
        *((provider, EMPTY) for provider in OWN),
        *((provider, freeze_object({"tool_search": True})) for provider in SEARCHING),
    ],
    ids=[*OWN, *(f"{provider}, its own form" for provider in SEARCHING)],
)
async def test_the_cached_beginning_does_not_shrink_when_one_is_found(provider: str, options: JsonObject) -> None:
    model = ScriptedModel(SCRIPT, name=OWN[provider])
    usual, late = specs(deferred=False, count=5), specs(deferred=True)[5:]
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, tools=[Working(one) for one in (*usual, *late)], system="Be short.")
        session = await supervisor.spawn(spec)
        await session.ask("go")
        await session.ask("and now?")
        assert len(session.inspect().found_tools) > 2
    taken = freeze_object({**options, **MARKS})
    read = [prefix(provider, request, taken) for request in model.requests]
    assert len(read) == len(SCRIPT)
    for before, after in pairwise(read):
        assert after.startswith(before)


@pytest.mark.long
def test_300_tools_are_found_by_what_they_do() -> None:
    late = specs(deferred=True)
    for verb, noun in product(VERBS, NOUNS):
        found = [tool.name for tool in best(f"I want to {verb} some {noun}s in the desk", late)]
        assert found[0] == f"desk__{verb}_{noun}"


def test_a_call_in_the_form_of_openai_is_one_of_find_tools() -> None:
    decoder = format_of(PROVIDERS["openai"]).decoder()
    ended = 'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n'
    for event in EventReader().feed(f"data: {SEARCHED.model_dump_json()}\n\n{ended}".encode()):
        decoder.feed(event)
    assert decoder.response().calls == (ToolCall("", FINDER, freeze_object({"query": "dim"}), "call_1"),)


@pytest.mark.parametrize("provider", sorted({*OWN} - {*SEARCHING}))
def test_a_provider_without_a_form_of_its_own_says_so(provider: str) -> None:
    with pytest.raises(BadModelOptions, match="`tool_search` is not known to this provider"):
        body_of(provider, ModelRequest("", ()), freeze_object({"tool_search": True}))


def test_a_call_through_another_tool_is_sent_back_as_the_model_made_it() -> None:
    made = ToolCall("c1", "dim", freeze_object({"room": "attic"}), "id_1", "call_tool")
    request = ModelRequest("", (AssistantMessage((), (made,), OWN["openai"]),))
    (sent,) = (item for item in thaw(body_of("openai", request)["input"]) if item.get("type") == "function_call")  # type: ignore[attr-defined]  # a list of objects
    assert (sent["name"], json.loads(sent["arguments"])) == ("call_tool", {"name": "dim", "arguments": made.args})
