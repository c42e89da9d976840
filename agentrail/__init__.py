"""OTP for LLM agents, on Trio: supervised sessions, a pure machine inside, plugins as pure reducers.

Everything that the first page needs is here; the rest is in `agentrail.plugins`, `agentrail.tools`, `agentrail.errors`,
`agentrail.values.events` and `agentrail.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

    from agentrail.app.process import run as run
    from agentrail.app.spec import SessionSpec as SessionSpec
    from agentrail.app.supervisor import Supervisor as Supervisor
    from agentrail.app.supervisor import open_supervisor as open_supervisor
    from agentrail.hooks.actions import Abort as Abort
    from agentrail.hooks.actions import BlockTool as BlockTool
    from agentrail.hooks.actions import Continue as Continue
    from agentrail.hooks.actions import Emit as Emit
    from agentrail.hooks.actions import HoldTool as HoldTool
    from agentrail.hooks.actions import Intervene as Intervene
    from agentrail.hooks.plugin import Plugin as Plugin
    from agentrail.hooks.plugin import Priority as Priority
    from agentrail.runtime.handle import SessionHandle as SessionHandle
    from agentrail.tools import tool as tool
    from agentrail.values.secrets import Secret as Secret

_HOMES = {
    "Abort": "agentrail.hooks.actions",
    "BlockTool": "agentrail.hooks.actions",
    "Continue": "agentrail.hooks.actions",
    "Emit": "agentrail.hooks.actions",
    "HoldTool": "agentrail.hooks.actions",
    "Intervene": "agentrail.hooks.actions",
    "Plugin": "agentrail.hooks.plugin",
    "Priority": "agentrail.hooks.plugin",
    "Secret": "agentrail.values.secrets",
    "SessionHandle": "agentrail.runtime.handle",
    "SessionSpec": "agentrail.app.spec",
    "Supervisor": "agentrail.app.supervisor",
    "open_supervisor": "agentrail.app.supervisor",
    "run": "agentrail.app.process",
    "tool": "agentrail.tools",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first wanted."""
    if name == "__version__":
        return _version()
    home = _HOMES.get(name)
    if home is None:
        message = f"module `agentrail` has no `{name}`; it has {', '.join(_HOMES)}"
        raise AttributeError(message)
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def _version() -> str:
    """Return the version that is installed; whoever does not ask does not pay for the look."""
    from importlib.metadata import version  # noqa: PLC0415

    return version("agentrail")


def __dir__() -> list[str]:
    """List the public names, imported or not; packages that are not public are not among them."""
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
