"""What each wire format makes of the histories, as files: `golden/<folder>/<name>.json`.

`python -m tests.adapters.models.goldens` writes them; whoever does so reads the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.models import PROVIDERS, JsonObject
from tests.adapters.models.histories import SETTINGS, histories
from tests.kit import EMPTY, freeze_object, thaw

GOLDEN: Final = Path(__file__).parent / "golden"

OWN: Final = {
    "anthropic": "anthropic:claude-sonnet-5",
    "bedrock": "bedrock:anthropic.claude-sonnet-5-v1:0",
    "gemini": "gemini:gemini-3-flash-preview",
    "openai": "openai:gpt-5.4",
    "openai-chat": "openai-chat:gpt-4.1",
}
"""A model of each provider that has a wire format of its own."""

GOLDENS: Final = {
    **OWN,
    "azure": "azure:gpt-5.4",
    "azure-chat": "azure-chat:gpt-4.1",
    "vertex-claude": "vertex:claude-sonnet-5",
    "vertex-gemini": "vertex:gemini-3-flash-preview",
}
"""A model for each folder of goldens: those of `OWN`, and one of each maker at the clouds that have its format."""

_CLAUDE: Final = {"everything": frozenset({"temperature", "tool_choice"})}
_RESPONSES: Final = {"everything": frozenset({"stop"})}
WITHOUT: Final[dict[str, dict[str, frozenset[str]]]] = {
    "anthropic": _CLAUDE,
    "azure": _RESPONSES,
    "bedrock": _CLAUDE,
    "openai": _RESPONSES,
    "vertex-claude": _CLAUDE,
}
"""By folder: options that the model does not take, or not together with the others."""


SEARCHING: Final = ("anthropic", "openai")
"""Folders of goldens, and providers, with a form of their own for tools on demand."""

SOME: Final[dict[str, tuple[str, JsonObject]]] = {
    "tool_search": ("on_demand", freeze_object({"tool_search": True})),
    "api_version": ("tools", freeze_object({"api_version": "2025-04-01-preview"})),
}
"""Options that some providers alone have, each with the history that is rendered with it."""


def options_of(folder: str) -> tuple[str, ...]:
    """Return the names of the options in `SOME` that the goldens in *folder* have."""
    if folder in SEARCHING:
        return ("tool_search",)
    return ("api_version",) if folder.startswith("azure") else ()


def rendered(folder: str) -> dict[str, Rendered]:
    """Return the requests with the histories in *folder* of the goldens, by name."""
    own = GOLDENS[folder]
    provider, _, model = own.partition(":")
    wire = format_of(PROVIDERS[provider], model)
    requests = histories(own, "elsewhere:some-model")
    found = {name: wire.render(request, provider, model, read_settings(EMPTY)) for name, request in requests.items()}
    for name, options in SETTINGS.items():
        without = WITHOUT.get(folder, {}).get(name, frozenset())
        taken = freeze_object({key: options[key] for key in options if key not in without})
        found[f"options_{name}"] = wire.render(requests["tools"], provider, model, read_settings(taken))
    for name in options_of(folder):
        history, options = SOME[name]
        found[f"options_{name}"] = wire.render(requests[history], provider, model, read_settings(options))
    return found


def written(request: Rendered) -> str:
    """Return *request* as the text of its file."""
    whole = {"path": request.path, "headers": dict(request.headers), "body": thaw(request.body)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files."""
    for name in GOLDENS:
        folder = GOLDEN / name
        folder.mkdir(parents=True, exist_ok=True)
        for history, request in rendered(name).items():
            (folder / f"{history}.json").write_text(written(request), encoding="utf-8")


if __name__ == "__main__":
    main()
