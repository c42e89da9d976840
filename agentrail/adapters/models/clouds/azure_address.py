"""Azure: each customer has an address, and sends a key or a token of Entra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentrail.adapters.models.clouds.cloud import (
    Cloud,
    Environment,
    is_same_address,
    named_address,
    unknown_address,
)

if TYPE_CHECKING:
    from agentrail.adapters.models.settings import Settings

ENDPOINT: Final = "AZURE_OPENAI_ENDPOINT"
"""The environment variable that OpenAI's SDK reads for the address of the customer's resource."""

WITHOUT_VERSION: Final = "/openai/v1"
"""The path of the API that needs no version in its address."""


def _base_url(_model: str, settings: Settings, environment: Environment, _configured: str) -> str:
    root = _root(settings.base_url or named_address(ENDPOINT, environment))
    if not root:
        raise unknown_address("base_url", "https://my-resource.openai.azure.com", ENDPOINT)
    return f"{root}/openai" if settings.api_version else root + WITHOUT_VERSION


def _root(url: str) -> str:
    return url.removesuffix(WITHOUT_VERSION)


def _is_own(url: str, environment: Environment) -> bool:
    return is_same_address(_root(url), _root((environment(ENDPOINT) or "").strip().rstrip("/")))


CLOUD: Final = Cloud(_base_url, _is_own, {})
