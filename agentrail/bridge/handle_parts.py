"""What the handles of `aio` and `sync` need beside calls: an end for orphaned sessions, a view for notebooks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from agentrail.errors import AgentrailError
from agentrail.runtime.handle import SessionHandle
from agentrail.values.content import quoted
from agentrail.values.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from agentrail.runtime.handle import SessionHandle

log = logging.getLogger("agentrail.bridge")


async def stop_orphan(handle: SessionHandle) -> None:
    """Stop a session that was started for a caller who was cancelled, so that nobody has its handle."""
    try:
        await handle.stop("its caller was cancelled")
    except AgentrailError as error:
        log.warning("session %s, whose caller was cancelled, could not be stopped: %s", handle.id, error)


SHOWN_MESSAGES: Final = 20
"""The last messages of a conversation that are shown."""

SHOWN_CHARS: Final = 2000
"""The characters of a message that are shown."""


def session_markdown(handle: SessionHandle) -> str:
    """Return the session as Markdown; what people and models wrote is quoted."""
    blocks = [f"**session `{handle.id}`** · {_state(handle)}"]
    blocks += [f"**{who}**\n\n{quoted(text)}" for who, text in _lines(handle)]
    return "\n\n".join(blocks)


def session_html(handle: SessionHandle) -> str:
    """Return the session as HTML, with all texts escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(who)}</th>'
        f'<td style="text-align:left;white-space:pre-wrap">{escape(text)}</td></tr>'
        for who, text in _lines(handle)
    )
    return f"<div><b>session {escape(handle.id)}</b> · {escape(_state(handle))}<table>{rows}</table></div>"


def _state(handle: SessionHandle) -> str:
    """Return what the session is doing, in words."""
    status = handle.status()
    waiting = f", {len(status.held)} held" if status.held else ""
    queued = f", {status.queued} queued" if status.queued else ""
    return f"{status.phase}, turn {status.turn}, {status.model}{queued}{waiting}"


def _lines(handle: SessionHandle) -> Iterator[tuple[str, str]]:
    """Yield the last messages: who wrote each, and its text."""
    try:
        messages = handle.messages()
    except AgentrailError as why:  # it sleeps, or is forgotten
        yield "", str(why)
        return
    if len(messages) > SHOWN_MESSAGES:
        yield "", f"… {len(messages) - SHOWN_MESSAGES} messages before"
    for message in messages[-SHOWN_MESSAGES:]:
        text = _text(message)
        yield _author(message), text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _author(message: Message) -> str:
    """Return who wrote *message*."""
    if isinstance(message, UserMessage):
        return "user"
    return "assistant" if isinstance(message, AssistantMessage) else f"tool {message.name}"


def _text(message: Message) -> str:
    """Return the text of *message*, and the names of the tools that it calls."""
    calls = [f"→ {call.name}" for call in message.calls] if isinstance(message, AssistantMessage) else []
    return "\n".join(filter(None, (message.text, *calls)))
