"""Models pass what `agentrail.testing` asks of every model; those behind HTTP against a local server.

Some are marked `pytest.mark.long` by tests/conftest.py.
"""

from collections.abc import AsyncIterator, Callable

import pytest
import trio

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
from tests.adapters.models.goldens import OWN
from tests.adapters.models.histories import TOOLS, asked, user
from tests.adapters.models.scenes import PLAYS
from tests.adapters.models.server import Play, Server, serve
from tests.kit import Element, freeze_object

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
                model: Model = RemoteModel(OWN[provider], PROVIDERS[provider], http, keyless)
                options = freeze_object({"base_url": server.url})
                return ModelSetup(model, request_for(scene, OWN[provider]).but(options=options))

            yield set_up
            await http.close()
            nursery.cancel_scope.cancel()
