"""The kit for tests of agents; each name is imported from its home when it is first wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrail.testing.choose import Choose as Choose
    from agentrail.testing.journals import JournalConformance as JournalConformance
    from agentrail.testing.journals import StrictConformance as StrictConformance
    from agentrail.testing.machine import SessionMachine as SessionMachine
    from agentrail.testing.models import ModelConformance as ModelConformance
    from agentrail.testing.models import ModelScene as ModelScene
    from agentrail.testing.models import Stage as Stage
    from agentrail.testing.models import Staged as Staged
    from agentrail.testing.sandboxes import CommandConformance as CommandConformance
    from agentrail.testing.sandboxes import SandboxConformance as SandboxConformance
    from agentrail.testing.scenes import Scene as Scene
    from agentrail.testing.scripted import ScriptedModel as ScriptedModel
    from agentrail.testing.scripted import call as call
    from agentrail.testing.scripted import fail as fail
    from agentrail.testing.scripted import overflow as overflow
    from agentrail.testing.scripted import permanent as permanent
    from agentrail.testing.scripted import say as say
    from agentrail.testing.scripted import stall as stall
    from agentrail.testing.scripted import transient as transient
    from agentrail.testing.strategies import actions as actions
    from agentrail.testing.strategies import contexts as contexts
    from agentrail.testing.strategies import event_scripts as event_scripts
    from agentrail.testing.strategies import hooks as hooks
    from agentrail.testing.strategies import messages as messages
    from agentrail.testing.strategies import plugin_sets as plugin_sets
    from agentrail.testing.strategies import sessions as sessions
    from agentrail.testing.strategies import tool_calls as tool_calls
    from agentrail.testing.tools import ToolConformance as ToolConformance
    from agentrail.testing.world import World as World

_HOMES = {
    "Choose": "agentrail.testing.choose",
    "CommandConformance": "agentrail.testing.sandboxes",
    "JournalConformance": "agentrail.testing.journals",
    "ModelConformance": "agentrail.testing.models",
    "ModelScene": "agentrail.testing.models",
    "SandboxConformance": "agentrail.testing.sandboxes",
    "Scene": "agentrail.testing.scenes",
    "ScriptedModel": "agentrail.testing.scripted",
    "SessionMachine": "agentrail.testing.machine",
    "Stage": "agentrail.testing.models",
    "Staged": "agentrail.testing.models",
    "StrictConformance": "agentrail.testing.journals",
    "ToolConformance": "agentrail.testing.tools",
    "World": "agentrail.testing.world",
    "actions": "agentrail.testing.strategies",
    "call": "agentrail.testing.scripted",
    "contexts": "agentrail.testing.strategies",
    "event_scripts": "agentrail.testing.strategies",
    "fail": "agentrail.testing.scripted",
    "hooks": "agentrail.testing.strategies",
    "messages": "agentrail.testing.strategies",
    "overflow": "agentrail.testing.scripted",
    "permanent": "agentrail.testing.scripted",
    "plugin_sets": "agentrail.testing.strategies",
    "say": "agentrail.testing.scripted",
    "sessions": "agentrail.testing.strategies",
    "stall": "agentrail.testing.scripted",
    "tool_calls": "agentrail.testing.strategies",
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
