"""A host plugin that watches: a heartbeat, `/ping`, the date, a list of attachments, and three lines in the log.

Run it: `agentrail serve docs/examples/observability.py`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence

import trio

from agentrail import SessionSpec
from agentrail.host import (
    Attachment,
    HandledResponse,
    Host,
    HostPlugin,
    PluginHost,
    Profile,
    Request,
    RequestContext,
    RequestEnd,
)
from agentrail.models import Message

log = logging.getLogger("observability")


def datestamp(context: RequestContext, messages: Sequence[Message]) -> list[str]:
    """Tell the model the date and the tenant: what is returned is added, and *messages* stay as they are."""
    return [f"[System note: Today is {time.strftime('%Y-%m-%d', time.gmtime())}. Tenant: {context.tenant_id}]"]


class Observability(HostPlugin):
    name = "observability"
    version = "1.0.0"
    priority = 10
    context_providers = (datestamp,)

    def __init__(self, seconds: float = 60) -> None:
        self._seconds = seconds

    def start(self, host: PluginHost) -> None:
        host.start_task(self._beat)  # it is cancelled when the host ends, so there is nothing to `stop`

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self._seconds)
            _write("heartbeat")

    def intercept(self, request: Request) -> HandledResponse | None:
        if request.message == "/ping":
            return HandledResponse(200, {"text": "pong"})
        return None

    def attachment_handler(self, files: Sequence[Attachment]) -> str:
        return "\n".join(
            ["Uploaded files:", *(f"- {file.name} ({file.mime_type}, {file.size_kb} KB)" for file in files)]
        )

    def on_request_start(self, context: RequestContext) -> None:
        _write("request_start", **_about(context))

    def on_turn_persisted(self, context: RequestContext) -> None:
        _write("turn_persisted", session_id=context.session_id)

    def on_request_end(self, context: RequestEnd) -> None:
        _write("request_end", **_about(context), outcome=context.outcome, duration_ms=context.duration_ms)


def _about(context: RequestContext) -> dict[str, str]:
    return {
        "kind": context.kind,
        "tenant_id": context.tenant_id,
        "user_id": context.user_id,
        "session_id": context.session_id,
        "agent_id": context.agent_id,
    }


def _write(event: str, **more: object) -> None:
    log.info("%s", json.dumps({"event": event, **more}))


host = Host([Profile("desk", SessionSpec(model="demo"))], [Observability()])
