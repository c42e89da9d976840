"""`RequestLog`: a host plugin that writes one line to the log for each request to talk."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Final

from agentrail.errors import BadChoice
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import RequestEnd
from agentrail.host.requests.access_log import FACTS, plain_or_quoted
from agentrail.runtime.diagnosis.plugin_complaints import LOG_LEVELS
from agentrail.values.argument_checks import checked

FORMS: Final = ("text", "json")
"""How a line of the log may be written: as `name=value` pairs, or as a JSON object."""

LEVELS: Final = ("debug", "info", "warning")
LOGGER: Final = "agentrail.requests"


class RequestLog(HostPlugin):
    """Writes one line to the log when a request to talk is over: whose it was, how it ended, what it cost.

    Give it to the host, and let the logger be heard: `logging.basicConfig(level="INFO")`. A line has the kind of the
    request, tenant, user, session, agent, id, outcome, milliseconds, tokens, cost, and the class of the error if there
    was one. It never has messages, headers, keys or words of errors. What a client may choose, such as the name of an
    agent, is written as a JSON string if it is not plain, so that no client can begin a line of its own.
    """

    name = "request-log"

    @checked
    def __init__(self, *, form: str = "text", level: str = "info", logger: str = LOGGER) -> None:
        """Write lines of the *form* `text` or `json` to *logger*, at *level*: `debug`, `info` or `warning`."""
        if form not in FORMS:
            raise BadChoice.among("form", form, FORMS)
        if level not in LEVELS:
            raise BadChoice.among("level", level, LEVELS)
        self._write = _as_json if form == "json" else _as_text
        self._level = LOG_LEVELS[level]
        self._log = logging.getLogger(logger)

    def on_request_end(self, context: RequestEnd) -> None:
        """Write the line of the request."""
        if self._log.isEnabledFor(self._level):
            facts = _facts(context)
            self._log.log(self._level, "%s", self._write(facts), extra={FACTS: facts})


def _facts(end: RequestEnd) -> dict[str, object]:
    usage = end.usage
    facts: dict[str, object] = {
        "request": end.request_id,
        "kind": end.kind,
        "tenant": end.tenant_id,
        "user": end.user_id,
        "session": end.session_id,
        "agent": end.agent_id,
        "outcome": end.outcome,
        "ms": end.duration_ms,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "error": end.error,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _as_json(facts: Mapping[str, object]) -> str:
    return json.dumps(facts)


def _as_text(facts: Mapping[str, object]) -> str:
    return " ".join([f"{name}={plain_or_quoted(fact)}" for name, fact in facts.items()])
