"""The test kit for agents and plugins; each name is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.testing.conformance.journal_tests import JournalConformance as JournalConformance
    from agentrail.testing.conformance.journal_tests import StrictConformance as StrictConformance
    from agentrail.testing.conformance.model_tests import ModelConformance as ModelConformance
    from agentrail.testing.conformance.model_tests import ModelScene as ModelScene
    from agentrail.testing.conformance.model_tests import Stage as Stage
    from agentrail.testing.conformance.model_tests import Staged as Staged
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
    from agentrail.testing.laws.laws import check_screen as check_screen
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
    from agentrail.testing.turns.conflicts import Conflict as Conflict
    from agentrail.testing.turns.conflicts import find_conflict as find_conflict
    from agentrail.testing.turns.cues import abort as abort
    from agentrail.testing.turns.cues import approve as approve
    from agentrail.testing.turns.cues import compact as compact
    from agentrail.testing.turns.cues import prompt as prompt
    from agentrail.testing.turns.cues import raises as raises
    from agentrail.testing.turns.cues import reject as reject
    from agentrail.testing.turns.cues import respond as respond
    from agentrail.testing.turns.cues import returns as returns
    from agentrail.testing.turns.cues import steer as steer
    from agentrail.testing.turns.cues import stop as stop
    from agentrail.testing.turns.cues import switch_model as switch_model
    from agentrail.testing.turns.cues import tell as tell
    from agentrail.testing.turns.cues import wait as wait
    from agentrail.testing.turns.invariants import INVARIANTS as INVARIANTS
    from agentrail.testing.turns.orders import OrderMatters as OrderMatters
    from agentrail.testing.turns.orders import order_report as order_report
    from agentrail.testing.turns.trace import Trace as Trace
    from agentrail.testing.turns.trace import simulate as simulate
    from agentrail.testing.turns.watching import Decision as Decision
    from agentrail.testing.world.choose import Choose as Choose
    from agentrail.testing.world.plausible import World as World
    from agentrail.testing.world.plausible import play as play
    from agentrail.testing.world.scenes import Scene as Scene
    from agentrail.testing.world.session_machine import SessionMachine as SessionMachine

_HOMES = {
    "ArgsReplacer": "agentrail.testing.probes",
    "Choose": "agentrail.testing.world.choose",
    "CommandConformance": "agentrail.testing.conformance.sandbox_tests",
    "Conflict": "agentrail.testing.turns.conflicts",
    "Cue": "agentrail.testing.scripted",
    "Decision": "agentrail.testing.turns.watching",
    "Holder": "agentrail.testing.probes",
    "INVARIANTS": "agentrail.testing.turns.invariants",
    "JournalConformance": "agentrail.testing.conformance.journal_tests",
    "LAWS": "agentrail.testing.laws.laws",
    "LawBrokenError": "agentrail.testing.laws.laws",
    "LeftRecordingError": "agentrail.testing.recorded",
    "ModelConformance": "agentrail.testing.conformance.model_tests",
    "ModelScene": "agentrail.testing.conformance.model_tests",
    "OrderMatters": "agentrail.testing.turns.orders",
    "RecordedModel": "agentrail.testing.recorded",
    "Recorder": "agentrail.testing.probes",
    "SandboxConformance": "agentrail.testing.conformance.sandbox_tests",
    "Scene": "agentrail.testing.world.scenes",
    "ScriptedModel": "agentrail.testing.scripted",
    "SessionMachine": "agentrail.testing.world.session_machine",
    "SimulationFailedError": "agentrail.testing.simulator.run",
    "Simulator": "agentrail.testing.simulator.run",
    "Stage": "agentrail.testing.conformance.model_tests",
    "Staged": "agentrail.testing.conformance.model_tests",
    "StrictConformance": "agentrail.testing.conformance.journal_tests",
    "ToolConformance": "agentrail.testing.conformance.tool_tests",
    "Trace": "agentrail.testing.turns.trace",
    "TrioDriver": "agentrail.testing.driver",
    "World": "agentrail.testing.world.plausible",
    "abort": "agentrail.testing.turns.cues",
    "actions": "agentrail.testing.strategies",
    "approve": "agentrail.testing.turns.cues",
    "call": "agentrail.testing.scripted",
    "check_event": "agentrail.testing.laws.laws",
    "check_screen": "agentrail.testing.laws.laws",
    "check_hook": "agentrail.testing.laws.laws",
    "check_init": "agentrail.testing.laws.laws",
    "check_options": "agentrail.testing.laws.laws",
    "check_plugin": "agentrail.testing.laws.checking",
    "compact": "agentrail.testing.turns.cues",
    "contexts": "agentrail.testing.strategies",
    "event_scripts": "agentrail.testing.strategies",
    "fail": "agentrail.testing.scripted",
    "find_conflict": "agentrail.testing.turns.conflicts",
    "hooks": "agentrail.testing.strategies",
    "messages": "agentrail.testing.strategies",
    "order_report": "agentrail.testing.turns.orders",
    "overflow": "agentrail.testing.scripted",
    "permanent": "agentrail.testing.scripted",
    "play": "agentrail.testing.world.plausible",
    "plugin_sets": "agentrail.testing.strategies",
    "prompt": "agentrail.testing.turns.cues",
    "raises": "agentrail.testing.turns.cues",
    "reject": "agentrail.testing.turns.cues",
    "respond": "agentrail.testing.turns.cues",
    "returns": "agentrail.testing.turns.cues",
    "say": "agentrail.testing.scripted",
    "scripts": "agentrail.testing.strategies",
    "sessions": "agentrail.testing.strategies",
    "simulate": "agentrail.testing.turns.trace",
    "stall": "agentrail.testing.scripted",
    "steer": "agentrail.testing.turns.cues",
    "stop": "agentrail.testing.turns.cues",
    "switch_model": "agentrail.testing.turns.cues",
    "tell": "agentrail.testing.turns.cues",
    "tool_calls": "agentrail.testing.strategies",
    "transient": "agentrail.testing.scripted",
    "wait": "agentrail.testing.turns.cues",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES, extra="testing")
