"""The kit for tests of agents; each name is imported from its home when it is first wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrail.testing.scripted import ScriptedModel as ScriptedModel
    from agentrail.testing.scripted import call as call
    from agentrail.testing.scripted import fail as fail
    from agentrail.testing.scripted import overflow as overflow
    from agentrail.testing.scripted import permanent as permanent
    from agentrail.testing.scripted import say as say
    from agentrail.testing.scripted import stall as stall
    from agentrail.testing.scripted import transient as transient

_HOMES = {
    "ScriptedModel": "agentrail.testing.scripted",
    "call": "agentrail.testing.scripted",
    "fail": "agentrail.testing.scripted",
    "overflow": "agentrail.testing.scripted",
    "permanent": "agentrail.testing.scripted",
    "say": "agentrail.testing.scripted",
    "stall": "agentrail.testing.scripted",
    "transient": "agentrail.testing.scripted",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first wanted."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module `agentrail.testing` has no `{name}`; it has {', '.join(_HOMES)}")  # noqa: EM102, TRY003 - not ours to subclass
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *_HOMES})
