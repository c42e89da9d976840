"""Azure: each customer has an address, and sends a key or a token of Entra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentrail.adapters.models.clouds.cloud import Cloud, Environment, unknown_address

if TYPE_CHECKING:
    from agentrail.adapters.models.settings import Settings

ENDPOINT: Final = "AZURE_OPENAI_ENDPOINT"
"""The environment variable that OpenAI's SDK reads for the address of the customer's resource."""

WITHOUT_VERSION: Final = "/openai/v1"
"""The path of the API that needs no version in its address."""


def _base_url(_model: str, settings: Settings, environment: Environment, _configured: str) -> str:
    root = settings.base_url or (environment(ENDPOINT) or "").rstrip("/")
    if not root:
        raise unknown_address("base_url", "https://my-resource.openai.azure.com", ENDPOINT)
    root = root.removesuffix(WITHOUT_VERSION)
    return f"{root}/openai" if settings.api_version else root + WITHOUT_VERSION


def _is_own(url: str, environment: Environment) -> bool:
    return url.removesuffix(WITHOUT_VERSION) == (environment(ENDPOINT) or "").rstrip("/").removesuffix(WITHOUT_VERSION)


CLOUD: Final = Cloud(_base_url, _is_own, {})
