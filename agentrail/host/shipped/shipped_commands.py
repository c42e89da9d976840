"""The commands that `SlashCommands` brings: each is a call of the host, with the scope that the call needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, cast

import msgspec

from agentrail.host.access.identity import Identity
from agentrail.host.hosted_sessions import may
from agentrail.host.plugins.plugin_values import HandledResponse
from agentrail.host.shipped.command_table import CommandAnswer, Invocation, SlashCommand
from agentrail.values.json import Json, JsonObject
from agentrail.values.usage import NOTHING_USED
from agentrail.values.value import learned
from agentrail.wire.calls import CALLS
from agentrail.wire.views import DetailView, ReplyView, UsageView, to_json, view

STOP_REASON: Final = "command"
"""The stop reason of the answer to a command."""

REFUSED: Final = 400
"""Statuses from here on say that a call was not carried out."""


def reply(text: str, session: str, answer: JsonObject | None = None) -> HandledResponse:
    """Return a response that looks like the reply of an agent."""
    shown = ReplyView("", STOP_REASON, text, answer, view(UsageView, NOTHING_USED), (), session)
    return HandledResponse(body=cast("Json", json.loads(to_json(shown))))


async def _compact(said: Invocation) -> CommandAnswer:
    found = await said.call("compact", {"reason": said.arguments or None})
    if found.status >= REFUSED:
        return found
    return "The context is compacted: now, or before the next request of the turn that is open."


async def _fork(said: Invocation) -> CommandAnswer:
    found = await said.call("fork", {"session": said.arguments or None})
    if found.status >= REFUSED:
        return found
    body = cast("Mapping[str, str]", found.body)
    return reply(f"The session goes on as `{body['session']}`, too.", body["session"], cast("JsonObject", body))


async def _model(said: Invocation) -> CommandAnswer:
    if not said.arguments:
        detail = await said.call("show_session")
        if detail.status >= REFUSED:
            return detail
        status = _detail(detail).status
        return "The session does not run now." if status is None else f"The model is `{status.model}`."
    names = said.arguments.split()
    found = await said.call("switch_model", {"model": names[0] if len(names) == 1 else tuple(names)})
    if found.status >= REFUSED:
        return found
    return f"From the next turn on, the model is {', else '.join([f'`{name}`' for name in names])}."


async def _status(said: Invocation) -> CommandAnswer:
    found = await said.call("show_session")
    if found.status >= REFUSED:
        return found
    return reply(_told(_detail(found)), said.request.context.session_id, cast("JsonObject", found.body))


def _detail(found: HandledResponse) -> DetailView:
    return cast("DetailView", msgspec.convert(found.body, learned(DetailView)))


def _told(detail: DetailView) -> str:
    status = detail.status
    if status is None:
        return f"`{detail.session}` does not run now{f': {detail.problem}' if detail.problem else ''}."
    usage = status.usage
    cost = "" if usage.cost_usd is None else f", {usage.cost_usd:.4f} US dollars"
    facts = [
        f"`{detail.session}` is {status.phase.replace('_', ' ')}",
        f"model `{status.model}`",
        f"{status.turn} turns, {usage.input_tokens} tokens read and {usage.output_tokens} written{cost}",
        *([f"{status.queued} prompts wait"] if status.queued else []),
        *([f"{len(status.held)} calls wait for a person"] if status.held else []),
    ]
    return f"{'; '.join(facts)}."


def _may(call: str, who: Identity) -> bool:
    return may(CALLS[call], who)


SHIPPED: Final[Mapping[str, SlashCommand]] = MappingProxyType(
    {
        command.name: command
        for command in (
            SlashCommand("/compact", "shorten the context: /compact [WHY]", _compact, partial(_may, "compact")),
            SlashCommand("/fork", "go on in a copy of the session, too: /fork [NAME]", _fork, partial(_may, "fork")),
            SlashCommand("/model", "switch the model: /model [NAME …]", _model, partial(_may, "switch_model")),
            SlashCommand("/status", "say what the session does", _status, partial(_may, "show_session")),
        )
    }
)
"""The commands by name; `/help` is that of the plugin itself."""
