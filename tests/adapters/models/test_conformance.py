"""Models pass what `agentrail.testing` asks of every model; those behind HTTP against a local server.

Some are marked `pytest.mark.long` by tests/conftest.py.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import pytest
import trio

from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.models import PROVIDERS, DemoModel, Model, ModelRequest, Usage
from agentrail.testing import (
    ModelConformance,
    ModelScene,
    ModelSetup,
    ScriptedModel,
    SetUp,
    call,
    overflow,
    permanent,
    say,
    stall,
    transient,
)
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import converse_events as converse
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.goldens import OWN
from tests.adapters.models.histories import TOOLS, asked, user
from tests.adapters.models.server import Play, Server, Stall, recorded, refusing, serve, steps, streaming
from tests.kit import Element, freeze_object

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
    "bedrock": {
        ModelScene.TEXT: lambda: streaming(converse.saying("All ", "lamps ", "are on."), size=50),
        ModelScene.THINKING: lambda: streaming(converse.saying("They are.", thinking="Let me see.")),
        ModelScene.CALLS: lambda: streaming(converse.calling(("a", "lamp", '{"room": "kitchen"}'), ("b", "lamps", ""))),
        ModelScene.LAST_ROUND: lambda: streaming(converse.saying("I stop here.")),
        ModelScene.SILENT: lambda: steps(Stall()),
        ModelScene.TRANSIENT: lambda: streaming(converse.exception("throttlingException", "slow down")),
        ModelScene.PERMANENT: lambda: _bedrock(403, "AccessDeniedException", "not with this key"),
        ModelScene.OVERFLOW: lambda: _bedrock(400, "ValidationException", "Input is too long for requested model."),
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


def _bedrock(status: int, kind: str, message: str) -> Play:
    return refusing(status, json.dumps({"message": message}).encode(), f"x-amzn-errortype: {kind}:http://x/")


def _gemini(code: int, status: str, message: str) -> Play:
    return refusing(code, json.dumps(gemini.error(code, status, message)).encode())


SCRIPTS: dict[ModelScene, Element] = {
    ModelScene.TEXT: say("all lamps are on", usage=Usage(3, 4)),
    ModelScene.THINKING: say("they are on", thinking="let me see"),
    ModelScene.CALLS: say(calls=[call("lamp", {"room": "kitchen"}, id="a"), call("lamps", id="b")]),
    ModelScene.LAST_ROUND: say("I stop here"),
    ModelScene.SILENT: stall(),
    ModelScene.TRANSIENT: transient(),
    ModelScene.PERMANENT: permanent(),
    ModelScene.OVERFLOW: overflow(),
}

PROMPTS = {
    ModelScene.TEXT: "hello",
    ModelScene.LAST_ROUND: "list the files",
}


def keyless(_: str) -> None:
    """There is no secret of any name."""


def request_for(scene: ModelScene, model: str) -> ModelRequest:
    return asked(user("are the lamps on?"), model=model, may_call=scene is not ModelScene.LAST_ROUND)


class TestScripted(ModelConformance):
    @pytest.fixture
    def set_up(self) -> SetUp:
        async def set_up(scene: ModelScene) -> ModelSetup:
            return ModelSetup(ScriptedModel([SCRIPTS[scene]], repeat_last=True), request_for(scene, "scripted"))

        return set_up


class TestDemo(ModelConformance):
    @pytest.fixture
    def set_up(self) -> SetUp:
        async def set_up(scene: ModelScene) -> ModelSetup | None:
            prompt = PROMPTS.get(scene)
            if prompt is None:
                return None
            request = ModelRequest("demo", (user(prompt),), tools=TOOLS, may_call=scene is not ModelScene.LAST_ROUND)
            return ModelSetup(DemoModel(delay=0), request)

        return set_up


@pytest.mark.parametrize("provider", OWN)
class TestRemote(ModelConformance):
    """Each provider, against a local server that answers in its format."""

    @pytest.fixture
    async def set_up(self, provider: str) -> AsyncIterator[SetUp]:
        async with trio.open_nursery() as nursery:
            http = Http()

            async def set_up(scene: ModelScene) -> ModelSetup:
                play: Callable[[], Play] = PLAYS[provider][scene]
                server: Server = await nursery.start(serve, play())
                model: Model = RemoteModel(OWN[provider], PROVIDERS[provider], http, keyless, Accounts())
                options = freeze_object({"base_url": server.url})
                return ModelSetup(model, request_for(scene, OWN[provider]).but(options=options))

            yield set_up
            await http.close()
            nursery.cancel_scope.cancel()
