"""What each wire format makes of the histories, as files: `golden/<format>/<name>.json`.

`python -m tests.adapters.models.goldens` writes them; whoever does so reads the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.models import PROVIDERS
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
"""A model of each provider that has goldens."""

WITHOUT: Final[dict[str, dict[str, frozenset[str]]]] = {
    "anthropic": {"everything": frozenset({"temperature", "tool_choice"})},
    "bedrock": {"everything": frozenset({"temperature", "tool_choice"})},
    "openai": {"everything": frozenset({"stop"})},
}
"""Options that a provider does not take, or not together with the others."""


SEARCHING: Final = ("anthropic", "openai")
"""Providers with a form of their own for tools on demand."""


def rendered(provider: str) -> dict[str, Rendered]:
    """Return what *provider* makes of the histories, by name."""
    own = OWN[provider]
    model = own.partition(":")[2]
    wire = format_of(PROVIDERS[provider], model)
    requests = histories(own, "elsewhere:some-model")
    found = {name: wire.render(request, provider, model, read_settings(EMPTY)) for name, request in requests.items()}
    for name, options in SETTINGS.items():
        without = WITHOUT.get(provider, {}).get(name, frozenset())
        taken = freeze_object({key: options[key] for key in options if key not in without})
        found[f"options_{name}"] = wire.render(requests["tools"], provider, model, read_settings(taken))
    if provider in SEARCHING:
        taken = freeze_object({"tool_search": True})
        found["options_tool_search"] = wire.render(requests["on_demand"], provider, model, read_settings(taken))
    return found


def written(request: Rendered) -> str:
    """Return *request* as the text of its file."""
    whole = {"path": request.path, "headers": dict(request.headers), "body": thaw(request.body)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files."""
    for provider in OWN:
        folder = GOLDEN / provider
        folder.mkdir(parents=True, exist_ok=True)
        for name, request in rendered(provider).items():
            (folder / f"{name}.json").write_text(written(request), encoding="utf-8")


if __name__ == "__main__":
    main()
