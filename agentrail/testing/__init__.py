"""The kit for tests of agents; each name is imported from its home when it is first wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.testing.checking import check_plugin as check_plugin
    from agentrail.testing.choose import Choose as Choose
    from agentrail.testing.conflicts import Conflict as Conflict
    from agentrail.testing.conflicts import find_conflict as find_conflict
    from agentrail.testing.cues import abort as abort
    from agentrail.testing.cues import approve as approve
    from agentrail.testing.cues import compact as compact
    from agentrail.testing.cues import prompt as prompt
    from agentrail.testing.cues import raises as raises
    from agentrail.testing.cues import reject as reject
    from agentrail.testing.cues import respond as respond
    from agentrail.testing.cues import returns as returns
    from agentrail.testing.cues import steer as steer
    from agentrail.testing.cues import stop as stop
    from agentrail.testing.cues import switch_model as switch_model
    from agentrail.testing.cues import tell as tell
    from agentrail.testing.cues import wait as wait
    from agentrail.testing.driver import TrioDriver as TrioDriver
    from agentrail.testing.invariants import INVARIANTS as INVARIANTS
    from agentrail.testing.journals import JournalConformance as JournalConformance
    from agentrail.testing.journals import StrictConformance as StrictConformance
    from agentrail.testing.laws import LAWS as LAWS
    from agentrail.testing.laws import LawBrokenError as LawBrokenError
    from agentrail.testing.laws import check_event as check_event
    from agentrail.testing.laws import check_hook as check_hook
    from agentrail.testing.laws import check_init as check_init
    from agentrail.testing.laws import check_options as check_options
    from agentrail.testing.machine import SessionMachine as SessionMachine
    from agentrail.testing.models import ModelConformance as ModelConformance
    from agentrail.testing.orders import OrderMatters as OrderMatters
    from agentrail.testing.orders import order_report as order_report
    from agentrail.testing.plugins import ArgsReplacer as ArgsReplacer
    from agentrail.testing.plugins import Holder as Holder
    from agentrail.testing.plugins import Recorder as Recorder
    from agentrail.testing.recorded import LeftRecordingError as LeftRecordingError
    from agentrail.testing.recorded import RecordedModel as RecordedModel
    from agentrail.testing.sandboxes import CommandConformance as CommandConformance
    from agentrail.testing.sandboxes import SandboxConformance as SandboxConformance
    from agentrail.testing.scenes import Scene as Scene
    from agentrail.testing.scripted import Cue as Cue
    from agentrail.testing.scripted import ScriptedModel as ScriptedModel
    from agentrail.testing.scripted import call as call
    from agentrail.testing.scripted import fail as fail
    from agentrail.testing.scripted import overflow as overflow
    from agentrail.testing.scripted import permanent as permanent
    from agentrail.testing.scripted import say as say
    from agentrail.testing.scripted import stall as stall
    from agentrail.testing.scripted import transient as transient
    from agentrail.testing.simulator.simulator import SimulationFailedError as SimulationFailedError
    from agentrail.testing.simulator.simulator import Simulator as Simulator
    from agentrail.testing.strategies import actions as actions
    from agentrail.testing.strategies import contexts as contexts
    from agentrail.testing.strategies import event_scripts as event_scripts
    from agentrail.testing.strategies import hooks as hooks
    from agentrail.testing.strategies import messages as messages
    from agentrail.testing.strategies import plugin_sets as plugin_sets
    from agentrail.testing.strategies import scripts as scripts
    from agentrail.testing.strategies import sessions as sessions
    from agentrail.testing.strategies import tool_calls as tool_calls
    from agentrail.testing.tools import ToolConformance as ToolConformance
    from agentrail.testing.trace import Trace as Trace
    from agentrail.testing.trace import simulate as simulate
    from agentrail.testing.watching import Decision as Decision
    from agentrail.testing.world import World as World
    from agentrail.testing.world import play as play

_HOMES = {
    "ArgsReplacer": "agentrail.testing.plugins",
    "Choose": "agentrail.testing.choose",
    "CommandConformance": "agentrail.testing.sandboxes",
    "Conflict": "agentrail.testing.conflicts",
    "Cue": "agentrail.testing.scripted",
    "Decision": "agentrail.testing.watching",
    "Holder": "agentrail.testing.plugins",
    "INVARIANTS": "agentrail.testing.invariants",
    "JournalConformance": "agentrail.testing.journals",
    "LAWS": "agentrail.testing.laws",
    "LawBrokenError": "agentrail.testing.laws",
    "LeftRecordingError": "agentrail.testing.recorded",
    "ModelConformance": "agentrail.testing.models",
    "OrderMatters": "agentrail.testing.orders",
    "RecordedModel": "agentrail.testing.recorded",
    "Recorder": "agentrail.testing.plugins",
    "SandboxConformance": "agentrail.testing.sandboxes",
    "Scene": "agentrail.testing.scenes",
    "ScriptedModel": "agentrail.testing.scripted",
    "SessionMachine": "agentrail.testing.machine",
    "SimulationFailedError": "agentrail.testing.simulator.simulator",
    "Simulator": "agentrail.testing.simulator.simulator",
    "StrictConformance": "agentrail.testing.journals",
    "ToolConformance": "agentrail.testing.tools",
    "Trace": "agentrail.testing.trace",
    "TrioDriver": "agentrail.testing.driver",
    "World": "agentrail.testing.world",
    "play": "agentrail.testing.world",
    "abort": "agentrail.testing.cues",
    "actions": "agentrail.testing.strategies",
    "approve": "agentrail.testing.cues",
    "call": "agentrail.testing.scripted",
    "check_event": "agentrail.testing.laws",
    "check_hook": "agentrail.testing.laws",
    "check_init": "agentrail.testing.laws",
    "check_options": "agentrail.testing.laws",
    "check_plugin": "agentrail.testing.checking",
    "compact": "agentrail.testing.cues",
    "contexts": "agentrail.testing.strategies",
    "event_scripts": "agentrail.testing.strategies",
    "fail": "agentrail.testing.scripted",
    "find_conflict": "agentrail.testing.conflicts",
    "hooks": "agentrail.testing.strategies",
    "messages": "agentrail.testing.strategies",
    "order_report": "agentrail.testing.orders",
    "overflow": "agentrail.testing.scripted",
    "permanent": "agentrail.testing.scripted",
    "plugin_sets": "agentrail.testing.strategies",
    "prompt": "agentrail.testing.cues",
    "raises": "agentrail.testing.cues",
    "reject": "agentrail.testing.cues",
    "respond": "agentrail.testing.cues",
    "returns": "agentrail.testing.cues",
    "say": "agentrail.testing.scripted",
    "scripts": "agentrail.testing.strategies",
    "sessions": "agentrail.testing.strategies",
    "simulate": "agentrail.testing.trace",
    "stall": "agentrail.testing.scripted",
    "steer": "agentrail.testing.cues",
    "stop": "agentrail.testing.cues",
    "switch_model": "agentrail.testing.cues",
    "tell": "agentrail.testing.cues",
    "tool_calls": "agentrail.testing.strategies",
    "transient": "agentrail.testing.scripted",
    "wait": "agentrail.testing.cues",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names
__getattr__, __dir__ = lazily(__name__, _HOMES)
