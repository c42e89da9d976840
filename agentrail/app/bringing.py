"""Imports what a session may come to need before it starts: nothing is imported while it runs.

An import holds up the loop for as long as it takes, and within a step nobody expects that. So whoever spawns a session
pays for it, once in a process. It is no work for a thread: it would hold the interpreter all the same, and a clock that
is virtual would run on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from agentrail.app.spec import SessionSpec
from agentrail.ports.tool import Tool

ALWAYS: Final = (
    "agentrail.codec.states",
    "agentrail.codec.values",
    "agentrail.codec.text",
    "agentrail.runtime.commands",
    "agentrail.runtime.digests",
    "agentrail.runtime.rebuilding",
)
"""What any session may need: states of plugins, ids of commands, restarts."""

HTTP: Final = ("httpx", "httpcore", "h11", "anyio", "certifi", "importlib.resources", "encodings.idna")
"""The client for HTTP, and what it imports itself at its first request."""

SANDBOX: Final = ("agentrail.adapters.sandboxes.local",)

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "files": SANDBOX,
    "shell": SANDBOX,
    "network": ("agentrail.adapters.web", "agentrail.adapters.markdown", *HTTP),
}
"""What a tool needs that `requires` such a thing, if the specification brings nothing of its own."""


def bring(spec: SessionSpec, tools: Iterable[Tool]) -> None:
    """Import what the session of *spec*, with these *tools*, may come to need."""
    brought = {"files": spec.sandbox, "shell": spec.sandbox, "network": spec.web}
    wanted = {need for tool in tools for need in tool.spec.requires if brought.get(need) is None}
    bring_modules((*ALWAYS, *(name for need in sorted(wanted) for name in NEEDED.get(need, ()))))


def bring_modules(names: Iterable[str]) -> None:
    """Import the modules that are called so."""
    for name in names:
        _brought(name)


@cache
def _brought(name: str) -> None:
    """Import a module, once: asking the import system again costs a spawn more than the question here."""
    import_module(name)
