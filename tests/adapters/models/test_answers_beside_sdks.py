"""The official SDKs and our adapters read the same answers, and hear the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest
import trio

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.models import PROVIDERS, ModelRequest, Response, StopReason, Text, Thinking, UserMessage
from tests.adapters.models.answers import READ, WRITTEN, Called, Heard, claude_read, drawn
from tests.adapters.models.official import KEYS, MODELS, PATHS
from tests.adapters.models.server import serving, streaming
from tests.kit import freeze_object, thaw
from tests.profiles import CAMPAIGN

ANSWERS: Final = 1_000 if CAMPAIGN else 15
"""Answers that are drawn for each provider."""

STOPS: Final = {
    StopReason.END: "end",
    StopReason.LENGTH: "length",
    StopReason.TOOL_CALLS: "calls",
    StopReason.REFUSED: "refused",
}


async def read_by_ours(provider: str, url: str) -> Response:
    name = f"{provider}:{MODELS[provider]}"
    options = freeze_object({"base_url": url, "api_key": Secret("KEY")})
    request = ModelRequest(name, (UserMessage((Text("hello"),)),)).but(options=options)
    http = Http()
    try:
        model = RemoteModel(name, PROVIDERS[provider], http, {"KEY": KEYS[provider]}.get, Accounts())
        return await model.stream(request, lambda _: None)
    finally:
        await http.close()


def heard(response: Response) -> Heard:
    usage = response.usage
    return Heard(
        "".join(part.text for part in response.parts if isinstance(part, Text)),
        "".join(part.text for part in response.parts if isinstance(part, Thinking)),
        tuple(Called(call.provider_id, call.name, _plain(thaw(call.args))) for call in response.calls),
        STOPS[response.stop],
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
    )


def _plain(found: object) -> dict[str, object]:
    assert isinstance(found, dict)
    return found


@pytest.mark.long
@pytest.mark.parametrize("provider", WRITTEN)
async def test_both_hear_the_same(provider: str) -> None:
    random = Random(f"{provider} answers")
    for number in range(ANSWERS):
        answer = drawn(random, provider)
        written = WRITTEN[provider](random, answer)
        async with serving(streaming(written, size=random.choice((None, 7, 100, 4_096)))) as server:
            url = server.url + PATHS[provider]
            with trio.fail_after(30):
                theirs = await trio.to_thread.run_sync(READ[provider], url)
                ours = heard(await read_by_ours(provider, url))
        assert theirs == answer.heard, (number, written)
        assert ours == answer.heard, (number, written)


# The streams that the SDK of Anthropic is tested with; `make sdk-streams` fetches them

FIXTURES: Final = Path(__file__).parents[3] / "build" / "sdks" / "tests"
STREAMS: Final = sorted(
    [*FIXTURES.glob("lib/streaming/fixtures/*.txt"), *FIXTURES.glob("fixtures/*/*.sse")], key=lambda path: path.name
)

CUT: Final = {
    "incomplete_partial_json_response.txt": "theirs guesses how the arguments end, ours tells the model they are none",
    "tool_use_invalid_json_response.txt": "theirs raises, ours tells the model that its arguments are none",
}
"""Streams of calls whose arguments are no JSON, and what either makes of them."""


@pytest.mark.long
@pytest.mark.skipif(not STREAMS, reason="the streams of the SDK are not there: run `make sdk-streams`")
async def test_both_hear_the_same_in_the_streams_that_the_sdk_is_tested_with() -> None:
    different: dict[str, tuple[Heard, Heard]] = {}
    for path in STREAMS:
        async with serving(streaming(path.read_bytes(), size=100)) as server:
            ours = heard(await read_by_ours("anthropic", server.url))
            if path.name in CUT:
                assert [set(call.args) for call in ours.calls] == [{""}]
                continue
            theirs = await trio.to_thread.run_sync(claude_read, server.url)
        if theirs != ours:
            different[path.name] = (theirs, ours)
    assert different == {}
    assert len(STREAMS) > 15
