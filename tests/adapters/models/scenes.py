"""How each provider's server answers in the scenes of `ModelConformance`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from agentrail.testing import ModelScene
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.server import Play, Stall, recorded, refusing, steps, streaming

_REFUSALS: Final[Mapping[ModelScene, Callable[[], Play]]] = {
    ModelScene.SILENT: lambda: steps(Stall()),
    ModelScene.TRANSIENT: lambda: refusing(
        429, json.dumps(openai.error("rate_limit_exceeded", "slow", "tokens")).encode()
    ),
    ModelScene.PERMANENT: lambda: refusing(401, json.dumps(openai.error("invalid_api_key", "no such key")).encode()),
    ModelScene.OVERFLOW: lambda: refusing(
        400, json.dumps(openai.error("context_length_exceeded", "too long")).encode()
    ),
}
"""How OpenAI refuses."""

PLAYS: Final[Mapping[str, Mapping[ModelScene, Callable[[], Play]]]] = {
    "anthropic": {
        ModelScene.TEXT: lambda: streaming(anthropic.saying("All ", "lamps ", "are on."), size=50),
        ModelScene.THINKING: lambda: streaming(anthropic.saying("They are.", thinking="Let me see.")),
        ModelScene.CALLS: lambda: streaming(recorded("anthropic_tools.sse")),
        ModelScene.LAST_ROUND: lambda: streaming(anthropic.saying("I stop here.")),
        ModelScene.SILENT: lambda: steps(Stall()),
        ModelScene.TRANSIENT: lambda: refusing(529, _error("overloaded_error", "Overloaded")),
        ModelScene.PERMANENT: lambda: refusing(401, _error("authentication_error", "invalid x-api-key")),
        ModelScene.OVERFLOW: lambda: refusing(400, _error("invalid_request_error", "prompt is too long: 9 > 8")),
    },
    "gemini": {
        ModelScene.TEXT: lambda: streaming(gemini.saying("All ", "lamps ", "are on."), size=50),
        ModelScene.THINKING: lambda: streaming(gemini.saying("They are.", thinking="Let me see.")),
        ModelScene.CALLS: lambda: streaming(recorded("gemini_tools.sse")),
        ModelScene.LAST_ROUND: lambda: streaming(gemini.saying("I stop here.")),
        ModelScene.SILENT: lambda: steps(Stall()),
        ModelScene.TRANSIENT: lambda: _gemini(503, "UNAVAILABLE", "The model is overloaded."),
        ModelScene.PERMANENT: lambda: _gemini(403, "PERMISSION_DENIED", "not with this key"),
        ModelScene.OVERFLOW: lambda: _gemini(
            400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."
        ),
    },
    "openai": {
        ModelScene.TEXT: lambda: streaming(openai.saying("All ", "lamps ", "are on."), size=50),
        ModelScene.THINKING: lambda: streaming(openai.saying("They are.", thinking="Let me see.")),
        ModelScene.CALLS: lambda: streaming(recorded("openai_tools.sse")),
        ModelScene.LAST_ROUND: lambda: streaming(openai.saying("I stop here.")),
        **_REFUSALS,
    },
    "openai-chat": {
        ModelScene.TEXT: lambda: streaming(chat.saying("All ", "lamps ", "are on."), size=50),
        ModelScene.THINKING: lambda: streaming(chat.saying("They are.", thinking="Let me see.")),
        ModelScene.CALLS: lambda: streaming(recorded("openai-chat_tools.sse")),
        ModelScene.LAST_ROUND: lambda: streaming(chat.saying("I stop here.")),
        **_REFUSALS,
    },
}


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def _gemini(code: int, status: str, message: str) -> Play:
    return refusing(code, json.dumps(gemini.error(code, status, message)).encode())
