"""Sandboxes, in which tools use files and run commands: the built-in ones, and the protocol for one of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.adapters.sandboxes.bubblewrap import BubblewrapSandbox as BubblewrapSandbox
    from agentrail.adapters.sandboxes.bubblewrap import Limits as Limits
    from agentrail.adapters.sandboxes.composite import CompositeSandbox as CompositeSandbox
    from agentrail.adapters.sandboxes.local import LocalSandbox as LocalSandbox
    from agentrail.adapters.sandboxes.memory import MemorySandbox as MemorySandbox
    from agentrail.ports.sandbox import Command as Command
    from agentrail.ports.sandbox import Content as Content
    from agentrail.ports.sandbox import Edited as Edited
    from agentrail.ports.sandbox import Entry as Entry
    from agentrail.ports.sandbox import Execution as Execution
    from agentrail.ports.sandbox import Heard as Heard
    from agentrail.ports.sandbox import Kind as Kind
    from agentrail.ports.sandbox import Listing as Listing
    from agentrail.ports.sandbox import Match as Match
    from agentrail.ports.sandbox import Matches as Matches
    from agentrail.ports.sandbox import NextPiece as NextPiece
    from agentrail.ports.sandbox import OnOutput as OnOutput
    from agentrail.ports.sandbox import Output as Output
    from agentrail.ports.sandbox import Process as Process
    from agentrail.ports.sandbox import Receiver as Receiver
    from agentrail.ports.sandbox import Sandbox as Sandbox
    from agentrail.ports.sandbox import Search as Search
    from agentrail.ports.sandbox import Written as Written
    from agentrail.ports.web import Page as Page
    from agentrail.ports.web import Web as Web

_HOMES = {
    "BubblewrapSandbox": "agentrail.adapters.sandboxes.bubblewrap",
    "Command": "agentrail.ports.sandbox",
    "CompositeSandbox": "agentrail.adapters.sandboxes.composite",
    "Content": "agentrail.ports.sandbox",
    "Edited": "agentrail.ports.sandbox",
    "Entry": "agentrail.ports.sandbox",
    "Execution": "agentrail.ports.sandbox",
    "Heard": "agentrail.ports.sandbox",
    "Kind": "agentrail.ports.sandbox",
    "Limits": "agentrail.adapters.sandboxes.bubblewrap",
    "Listing": "agentrail.ports.sandbox",
    "LocalSandbox": "agentrail.adapters.sandboxes.local",
    "Match": "agentrail.ports.sandbox",
    "Matches": "agentrail.ports.sandbox",
    "MemorySandbox": "agentrail.adapters.sandboxes.memory",
    "NextPiece": "agentrail.ports.sandbox",
    "OnOutput": "agentrail.ports.sandbox",
    "Output": "agentrail.ports.sandbox",
    "Page": "agentrail.ports.web",
    "Process": "agentrail.ports.sandbox",
    "Receiver": "agentrail.ports.sandbox",
    "Sandbox": "agentrail.ports.sandbox",
    "Search": "agentrail.ports.sandbox",
    "Web": "agentrail.ports.web",
    "Written": "agentrail.ports.sandbox",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
