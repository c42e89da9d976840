"""The official SDKs at Vertex AI and Azure: the stories of `official`, by each SDK's client for the cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import anthropic
import openai
from attrs import frozen
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from agentrail import Secret
from tests.adapters.models.official import MODELS, Ask

KEY: Final = "0123456789abcdef0123456789abcdef"
TOKEN: Final = "ya29.0123456789-abcdefgh"
VERSION: Final = "2025-04-01-preview"


@frozen
class Cloud:
    """A cloud's client of an SDK, and the options by which ours is the same."""

    provider: str
    """The name of the provider here."""
    maker: str
    """The provider that has the same stories and the same differences, by the name of `official.WRITERS`."""
    client: Callable[[str], AbstractContextManager[Ask]]
    """Takes the address of the server that stands for the cloud."""
    options: Mapping[str, object]
    """Ours, beside the address."""

    @property
    def model(self) -> str:
        return f"{self.provider}:{MODELS[self.maker]}"


@contextmanager
def vertex_gemini(url: str) -> Iterator[Ask]:
    client = genai.Client(
        vertexai=True,
        project="lamps-1",
        location="europe-west4",
        credentials=Credentials(TOKEN),  # type: ignore[no-untyped-call]  # it has no types
        http_options=types.HttpOptions(base_url=url),
    )
    try:
        yield lambda body: list(client.models.generate_content_stream(**body))
    finally:
        client.close()


@contextmanager
def vertex_claude(url: str) -> Iterator[Ask]:
    with anthropic.AnthropicVertex(
        region="europe-west4", project_id="lamps-1", access_token=TOKEN, base_url=f"{url}/v1", max_retries=0
    ) as client:
        yield lambda body: list(client.messages.create(**body, stream=True))


def asking(client: openai.OpenAI, *, chat: bool) -> Ask:
    if chat:
        return lambda body: list(client.chat.completions.create(**body, stream=True))
    return lambda body: list(client.responses.create(**body, stream=True))


@contextmanager
def azure_v1(url: str, *, chat: bool = False) -> Iterator[Ask]:
    with openai.OpenAI(base_url=f"{url}/openai/v1", api_key=KEY, max_retries=0) as client:
        yield asking(client, chat=chat)


@contextmanager
def azure_deployments(url: str, *, chat: bool = False) -> Iterator[Ask]:
    with openai.AzureOpenAI(azure_endpoint=url, api_key=KEY, api_version=VERSION, max_retries=0) as client:
        yield asking(client, chat=chat)


@contextmanager
def azure_entra(url: str, *, chat: bool = False) -> Iterator[Ask]:
    with openai.AzureOpenAI(
        azure_endpoint=url, azure_ad_token_provider=lambda: TOKEN, api_version=VERSION, max_retries=0
    ) as client:
        yield asking(client, chat=chat)


BY_KEY: Final[dict[str, object]] = {"api_key": Secret("KEY")}
BY_TOKEN: Final[dict[str, object]] = {"token": Secret("TOKEN")}
AT: Final[dict[str, object]] = {"project": "lamps-1", "region": "europe-west4", **BY_TOKEN}
OLDER: Final[dict[str, object]] = {"api_version": VERSION}

CLOUDS: Final = {
    "gemini": Cloud("vertex", "gemini", vertex_gemini, AT),
    "claude": Cloud("vertex", "anthropic", vertex_claude, AT),
    "responses": Cloud("azure", "openai", azure_v1, BY_KEY),
    "chat": Cloud("azure-chat", "openai-chat", lambda url: azure_v1(url, chat=True), BY_KEY),
    "responses, deployments": Cloud("azure", "openai", azure_deployments, OLDER | BY_KEY),
    "chat, deployments": Cloud(
        "azure-chat", "openai-chat", lambda url: azure_deployments(url, chat=True), OLDER | BY_KEY
    ),
    "responses, Entra": Cloud("azure", "openai", azure_entra, OLDER | BY_TOKEN),
    "chat, Entra": Cloud("azure-chat", "openai-chat", lambda url: azure_entra(url, chat=True), OLDER | BY_TOKEN),
}
