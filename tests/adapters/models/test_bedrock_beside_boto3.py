"""boto3 and our adapter make the same requests of Bedrock, story by story, and each signature is AWS's own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from attrs import frozen
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError

from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import ModelError
from agentrail.models import PROVIDERS
from tests.adapters.models.beside import DIFFERENCES, differences, row_of
from tests.adapters.models.official_bedrock import (
    ACCESS_KEY,
    HEADERS,
    MODEL,
    REGION,
    SECRET_KEY,
    TOKEN,
    Boto3,
    converse_of,
)
from tests.adapters.models.server import Asked, Server, refusing, serving
from tests.adapters.models.stories import STORIES, Story
from tests.kit import freeze_object

NOT_TAKEN: Final = {
    "any JSON object": "the API wants a schema",
    "temperature": "today's models refuse it",
    "a PDF that was uploaded": "the API takes no files by their ids",
}
"""Stories that Bedrock cannot be told."""

SIGNED: Final = frozenset({"header authorization", "header x-amz-date"})
"""What follows from the time and the headers; it is looked at by itself."""

REFUSED: Final = refusing(400, b'{"message": "not today"}', "x-amzn-errortype: ValidationException:http://x/")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    return monkeypatch


@frozen
class Both:
    """What boto3 asked, and what we did."""

    theirs: Asked
    ours: Asked


class Side:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._boto3 = Boto3(server.url)
        self._http = Http()

    async def told(self, name: str) -> Both:
        """Tell the story of this name to both, and return what they asked the server."""
        story, start = STORIES[name], len(self._server.asked)
        with pytest.raises(ClientError, match="not today"):
            await trio.to_thread.run_sync(self._boto3.ask, converse_of(story))
        await self._ours(story)
        theirs, ours = self._server.asked[start:]
        return Both(theirs, ours)

    async def _ours(self, story: Story) -> None:
        options = {key: item for key, item in story.options.items() if key != "extra"}
        if "extra" in story.options:
            options["extra"] = {"requestMetadata": {"team": "lamps"}}
        request = story.request(f"bedrock:{MODEL}", {"c2VhbA==": "c2VhbA=="}).but(options=freeze_object(options))
        secrets = {"GATE": HEADERS["x-gate"]}
        model = RemoteModel(f"bedrock:{MODEL}", PROVIDERS["bedrock"], self._http, secrets.get, Accounts())
        with pytest.raises(ModelError, match="not today"):
            await model.stream(request, lambda _: None)

    async def close(self) -> None:
        self._boto3.close()
        await self._http.close()


@asynccontextmanager
async def both_sides(environment: pytest.MonkeyPatch) -> AsyncIterator[Side]:
    async with serving(REFUSED) as server:
        environment.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
        side = Side(server)
        try:
            yield side
        finally:
            await side.close()


def signed_again(asked: Asked) -> str:
    """Return the header `authorization` as AWS's own code makes it for a request with these headers and this body."""
    found = re.search(r"SignedHeaders=([a-z0-9;-]+)", asked.headers["authorization"])
    assert found is not None
    headers = {name: asked.headers[name] for name in found[1].split(";")}
    request = AWSRequest("POST", f"http://{asked.headers['host']}{asked.target}", headers, asked.body)
    request.context["timestamp"] = asked.headers["x-amz-date"]
    signer = SigV4Auth(ReadOnlyCredentials(ACCESS_KEY, SECRET_KEY, TOKEN), "bedrock", REGION)
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    scope = f"{ACCESS_KEY}/{asked.headers['x-amz-date'][:8]}/{REGION}/bedrock/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={found[1]}, Signature={signature}"


@pytest.mark.long
async def test_both_ask_the_same_but_for_what_the_table_says(environment: pytest.MonkeyPatch) -> None:
    found: dict[str, dict[str, str]] = {}
    with trio.fail_after(60):
        async with both_sides(environment) as side:
            for name in STORIES.keys() - NOT_TAKEN.keys():
                both = await side.told(name)
                found[name] = {
                    place: what for place, what in differences("bedrock", both.theirs, both.ours) if place not in SIGNED
                }
                for asked in (both.theirs, both.ours):
                    assert asked.headers["authorization"] == signed_again(asked), name
                    assert asked.headers["x-amz-security-token"] == TOKEN
    places = {(name, place): what for name, places in found.items() for place, what in places.items()}
    assert [
        f"{name}: {place}: {what[:300]}"
        for (name, place), what in sorted(places.items())
        if row_of("bedrock", place, name) is None
    ] == []
    needed = [row_of("bedrock", place, name) for name, place in places]
    assert [row.places for row in DIFFERENCES if row.providers == ("bedrock",) and row not in needed] == []
