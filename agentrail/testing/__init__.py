"""The kit for tests of agents and plugins; each name is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.testing.conformance.journal_tests import JournalConformance as JournalConformance
    from agentrail.testing.conformance.journal_tests import StrictConformance as StrictConformance
    from agentrail.testing.conformance.model_tests import ModelConformance as ModelConformance
    from agentrail.testing.conformance.sandbox_tests import CommandConformance as CommandConformance
    from agentrail.testing.conformance.sandbox_tests import SandboxConformance as SandboxConformance
    from agentrail.testing.conformance.tool_tests import ToolConformance as ToolConformance
    from agentrail.testing.driver import TrioDriver as TrioDriver
    from agentrail.testing.laws.checking import check_plugin as check_plugin
    from agentrail.testing.laws.laws import LAWS as LAWS
    from agentrail.testing.laws.laws import LawBrokenError as LawBrokenError
    from agentrail.testing.laws.laws import check_event as check_event
    from agentrail.testing.laws.laws import check_hook as check_hook
    from agentrail.testing.laws.laws import check_init as check_init
    from agentrail.testing.laws.laws import check_options as check_options
    from agentrail.testing.probes import ArgsReplacer as ArgsReplacer
    from agentrail.testing.probes import Holder as Holder
    from agentrail.testing.probes import Recorder as Recorder
    from agentrail.testing.recorded import LeftRecordingError as LeftRecordingError
    from agentrail.testing.recorded import RecordedModel as RecordedModel
    from agentrail.testing.scripted import Cue as Cue
    from agentrail.testing.scripted import ScriptedModel as ScriptedModel
    from agentrail.testing.scripted import call as call
    from agentrail.testing.scripted import fail as fail
    from agentrail.testing.scripted import overflow as overflow
    from agentrail.testing.scripted import permanent as permanent
    from agentrail.testing.scripted import say as say
    from agentrail.testing.scripted import stall as stall
    from agentrail.testing.scripted import transient as transient
    from agentrail.testing.scripts.conflicts import Conflict as Conflict
    from agentrail.testing.scripts.conflicts import find_conflict as find_conflict
    from agentrail.testing.scripts.cues import abort as abort
    from agentrail.testing.scripts.cues import approve as approve
    from agentrail.testing.scripts.cues import compact as compact
    from agentrail.testing.scripts.cues import prompt as prompt
    from agentrail.testing.scripts.cues import raises as raises
    from agentrail.testing.scripts.cues import reject as reject
    from agentrail.testing.scripts.cues import respond as respond
    from agentrail.testing.scripts.cues import returns as returns
    from agentrail.testing.scripts.cues import steer as steer
    from agentrail.testing.scripts.cues import stop as stop
    from agentrail.testing.scripts.cues import switch_model as switch_model
    from agentrail.testing.scripts.cues import tell as tell
    from agentrail.testing.scripts.cues import wait as wait
    from agentrail.testing.scripts.invariants import INVARIANTS as INVARIANTS
    from agentrail.testing.scripts.orders import OrderMatters as OrderMatters
    from agentrail.testing.scripts.orders import order_report as order_report
    from agentrail.testing.scripts.trace import Trace as Trace
    from agentrail.testing.scripts.trace import simulate as simulate
    from agentrail.testing.scripts.watching import Decision as Decision
    from agentrail.testing.simulator.run import SimulationFailedError as SimulationFailedError
    from agentrail.testing.simulator.run import Simulator as Simulator
    from agentrail.testing.strategies import actions as actions
    from agentrail.testing.strategies import contexts as contexts
    from agentrail.testing.strategies import event_scripts as event_scripts
    from agentrail.testing.strategies import hooks as hooks
    from agentrail.testing.strategies import messages as messages
    from agentrail.testing.strategies import plugin_sets as plugin_sets
    from agentrail.testing.strategies import scripts as scripts
    from agentrail.testing.strategies import sessions as sessions
    from agentrail.testing.strategies import tool_calls as tool_calls
    from agentrail.testing.world.choose import Choose as Choose
    from agentrail.testing.world.plausible import World as World
    from agentrail.testing.world.plausible import play as play
    from agentrail.testing.world.scenes import Scene as Scene
    from agentrail.testing.world.session_machine import SessionMachine as SessionMachine

_HOMES = {
    "ArgsReplacer": "agentrail.testing.probes",
    "Choose": "agentrail.testing.world.choose",
    "CommandConformance": "agentrail.testing.conformance.sandbox_tests",
    "Conflict": "agentrail.testing.scripts.conflicts",
    "Cue": "agentrail.testing.scripted",
    "Decision": "agentrail.testing.scripts.watching",
    "Holder": "agentrail.testing.probes",
    "INVARIANTS": "agentrail.testing.scripts.invariants",
    "JournalConformance": "agentrail.testing.conformance.journal_tests",
    "LAWS": "agentrail.testing.laws.laws",
    "LawBrokenError": "agentrail.testing.laws.laws",
    "LeftRecordingError": "agentrail.testing.recorded",
    "ModelConformance": "agentrail.testing.conformance.model_tests",
    "OrderMatters": "agentrail.testing.scripts.orders",
    "RecordedModel": "agentrail.testing.recorded",
    "Recorder": "agentrail.testing.probes",
    "SandboxConformance": "agentrail.testing.conformance.sandbox_tests",
    "Scene": "agentrail.testing.world.scenes",
    "ScriptedModel": "agentrail.testing.scripted",
    "SessionMachine": "agentrail.testing.world.session_machine",
    "SimulationFailedError": "agentrail.testing.simulator.run",
    "Simulator": "agentrail.testing.simulator.run",
    "StrictConformance": "agentrail.testing.conformance.journal_tests",
    "ToolConformance": "agentrail.testing.conformance.tool_tests",
    "Trace": "agentrail.testing.scripts.trace",
    "TrioDriver": "agentrail.testing.driver",
    "World": "agentrail.testing.world.plausible",
    "play": "agentrail.testing.world.plausible",
    "abort": "agentrail.testing.scripts.cues",
    "actions": "agentrail.testing.strategies",
    "approve": "agentrail.testing.scripts.cues",
    "call": "agentrail.testing.scripted",
    "check_event": "agentrail.testing.laws.laws",
    "check_hook": "agentrail.testing.laws.laws",
    "check_init": "agentrail.testing.laws.laws",
    "check_options": "agentrail.testing.laws.laws",
    "check_plugin": "agentrail.testing.laws.checking",
    "compact": "agentrail.testing.scripts.cues",
    "contexts": "agentrail.testing.strategies",
    "event_scripts": "agentrail.testing.strategies",
    "fail": "agentrail.testing.scripted",
    "find_conflict": "agentrail.testing.scripts.conflicts",
    "hooks": "agentrail.testing.strategies",
    "messages": "agentrail.testing.strategies",
    "order_report": "agentrail.testing.scripts.orders",
    "overflow": "agentrail.testing.scripted",
    "permanent": "agentrail.testing.scripted",
    "plugin_sets": "agentrail.testing.strategies",
    "prompt": "agentrail.testing.scripts.cues",
    "raises": "agentrail.testing.scripts.cues",
    "reject": "agentrail.testing.scripts.cues",
    "respond": "agentrail.testing.scripts.cues",
    "returns": "agentrail.testing.scripts.cues",
    "say": "agentrail.testing.scripted",
    "scripts": "agentrail.testing.strategies",
    "sessions": "agentrail.testing.strategies",
    "simulate": "agentrail.testing.scripts.trace",
    "stall": "agentrail.testing.scripted",
    "steer": "agentrail.testing.scripts.cues",
    "stop": "agentrail.testing.scripts.cues",
    "switch_model": "agentrail.testing.scripts.cues",
    "tell": "agentrail.testing.scripts.cues",
    "tool_calls": "agentrail.testing.strategies",
    "transient": "agentrail.testing.scripted",
    "wait": "agentrail.testing.scripts.cues",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names
__getattr__, __dir__ = lazily(__name__, _HOMES)
