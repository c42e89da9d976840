"""The providers by name, as data: wire format, URL, and the environment variables that usually hold the API key."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from agentrail.values.value import Authored

if TYPE_CHECKING:
    from agentrail.adapters.models.wire_format import WireFormat


class Provider(Authored):
    """A provider of models."""

    format: str
    """The module of `agentrail.adapters.models` whose `FORMAT` is the provider's wire format."""
    base_url: str
    """The URL of the provider's API."""
    keys: tuple[str, ...] = ()
    """Environment variables that usually hold its API key; the first that is set counts. Empty if no key is needed."""
    cloud: str = ""
    """The module of `agentrail.adapters.models.clouds` with its addresses and credentials; empty if it is none."""
    options: tuple[str, ...] = ()
    """The options that this cloud has beside those of all providers."""
    formats: tuple[tuple[str, str], ...] = ()
    """The modules of other wire formats than `format`, each after the prefix of the models' names that have it."""


def format_of(provider: Provider, model: str = "") -> WireFormat:
    """Return the wire format of *provider* for *model*; its module is imported now."""
    name = next((name for prefix, name in provider.formats if model.startswith(prefix)), provider.format)
    module = import_module(f"agentrail.adapters.models.{name}")
    return cast("WireFormat", module.FORMAT)


AZURE: Final = "https://{resource}.openai.azure.com/openai/v1"
"""The address of a customer at Azure."""

PROVIDERS: Final = {
    "anthropic": Provider("anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
    "openai": Provider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "openai-chat": Provider("openai_chat", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "azure": Provider(
        "azure.azure_responses", AZURE, ("AZURE_OPENAI_API_KEY",), "azure_address", ("token", "api_version")
    ),
    "azure-chat": Provider(
        "azure.azure_chat", AZURE, ("AZURE_OPENAI_API_KEY",), "azure_address", ("token", "api_version")
    ),
    "bedrock": Provider(
        "bedrock",
        "https://bedrock-runtime.{region}.amazonaws.com",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        "aws_account",
        ("region", "profile", "token"),
    ),
    "deepseek": Provider("openai_chat", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "fireworks": Provider("openai_chat", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "gemini": Provider("gemini", "https://generativelanguage.googleapis.com", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "groq": Provider("openai_chat", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "llamacpp": Provider("openai_chat", "http://127.0.0.1:8080/v1"),
    "lmstudio": Provider("openai_chat", "http://127.0.0.1:1234/v1"),
    "mistral": Provider("openai_chat", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "ollama": Provider("openai_chat", "http://127.0.0.1:11434/v1"),
    "openrouter": Provider("openai_chat", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": Provider("openai_chat", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "vertex": Provider(
        "vertex.vertex_gemini",
        "https://{region}-aiplatform.googleapis.com",
        (),
        "google_account",
        ("region", "project", "token"),
        (("claude-", "vertex.vertex_claude"),),
    ),
    "vllm": Provider("openai_chat", "http://127.0.0.1:8000/v1"),
    "xai": Provider("openai_chat", "https://api.x.ai/v1", ("XAI_API_KEY",)),
}
"""All providers, by the name before the colon of a model's name, as in `anthropic:claude-opus-5`."""
