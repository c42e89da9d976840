"""Imports what a session may come to need before it starts: nothing is imported while it runs.

An import holds up the loop for as long as it takes, and within a step nobody expects that. So whoever spawns a session
pays for it, once in a process. What takes long, the client for HTTP and the published prices, is imported in a thread,
while the loop goes on; where the clock is virtual it is not, because that would run on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final

import trio

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.published_prices import PACKAGE
from agentrail.app.model_chain import chain_of
from agentrail.app.spec import SessionSpec
from agentrail.hooks.actions import SwitchModel
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import MATRIX, Plugin
from agentrail.ports.tool import Tool
from agentrail.runtime.diagnosis.loop_probe import in_real_time
from agentrail.values.json import EMPTY

ALWAYS: Final = (
    "agentrail.app.resuming",
    "agentrail.codec.states",
    "agentrail.codec.values",
    "agentrail.codec.text",
    "agentrail.runtime.commands",
    "agentrail.runtime.inbox.known_commands",
    "agentrail.runtime.actor.journal_log",
)
"""What any session may need: states of plugins, ids of commands, restarts, forks."""

HTTP: Final = ("httpx", "httpcore", "h11", "anyio", "certifi", "importlib.resources", "encodings.idna")
"""The client for HTTP, and what it imports itself at its first request."""

_FORMATS: Final = dict.fromkeys(f"agentrail.adapters.models.{provider.format}" for provider in PROVIDERS.values())

REMOTE: Final = ("agentrail.adapters.models.http", "agentrail.adapters.models.remote", *_FORMATS, *HTTP, PACKAGE)
"""What a model of a provider needs, with the published prices if they are installed."""

OURS: Final = "agentrail.plugins."
"""Where the plugins are that ship: none of them chooses a model."""

CHOOSING: Final = tuple(name for name, actions in MATRIX.items() if SwitchModel in actions)
"""The hooks in which a plugin may choose another model."""

SANDBOX: Final = ("agentrail.adapters.sandboxes.local",)

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "files": SANDBOX,
    "shell": SANDBOX,
    "network": ("agentrail.adapters.web", "agentrail.adapters.html_to_markdown", *HTTP),
}
"""What a tool needs that `requires` such a thing, if the specification brings nothing of its own."""


_brought: Final[set[str]] = set()
"""What is imported already, or cannot be."""


async def bring_beside(spec: SessionSpec) -> None:
    """Import what takes long of what the session of *spec*, or a sub-agent of it, may come to need."""
    if not _brought.issuperset(REMOTE) and _goes_out(spec):
        if in_real_time():
            await trio.to_thread.run_sync(bring_modules, REMOTE)
        else:
            bring_modules(REMOTE)


def _goes_out(spec: SessionSpec) -> bool:
    """Whether *spec* names a model of a provider, or has a plugin that may choose one."""
    links = chain_of(spec.model, EMPTY)
    if any(isinstance(model, str) and model.partition(":")[0] in PROVIDERS for model, _ in links):
        return True
    kinds: list[type] = [type(unkeyed(given)[1]) for given in spec.plugins]
    return any(map(_may_choose, kinds)) or any(map(_goes_out, spec.agents.values()))


def _may_choose(kind: type) -> bool:
    return not kind.__module__.startswith(OURS) and any(
        getattr(kind, name, None) is not getattr(Plugin, name) for name in CHOOSING
    )


def bring(spec: SessionSpec, tools: Iterable[Tool]) -> None:
    """Import what the session of *spec*, with these *tools*, may come to need."""
    brought = {"files": spec.sandbox, "shell": spec.sandbox, "network": spec.web}
    wanted = {need for tool in tools for need in tool.spec.requires if brought.get(need) is None}
    bring_modules((*ALWAYS, *(name for need in sorted(wanted) for name in NEEDED.get(need, ()))))


def bring_modules(names: Iterable[str]) -> None:
    """Import the modules that are called so, each once; an extra that is not installed is left out.

    Asking the import system again would cost a spawn more than the question here.
    """
    for name in names:
        if name not in _brought:
            try:
                import_module(name)
            except ModuleNotFoundError:
                if name != PACKAGE:
                    raise
            _brought.add(name)
