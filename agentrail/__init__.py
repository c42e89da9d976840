"""LLM agents on Trio, built like Erlang/OTP: supervised sessions around a pure state machine, with pure plugins.

This module has the names that most programs need; the others are in the packages `_PACKAGES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.app.preparing.blueprint import blueprint as blueprint
    from agentrail.app.process import run as run
    from agentrail.app.spec import SessionSpec as SessionSpec
    from agentrail.app.spec import Specs as Specs
    from agentrail.app.spec import SpecWanted as SpecWanted
    from agentrail.app.supervisor import Supervisor as Supervisor
    from agentrail.app.supervisor import open_supervisor as open_supervisor
    from agentrail.core.vocabulary.commands import Accepted as Accepted
    from agentrail.core.vocabulary.options import Options as Options
    from agentrail.core.vocabulary.state import Prompt as Prompt
    from agentrail.core.vocabulary.state import State as State
    from agentrail.hooks.actions import Abort as Abort
    from agentrail.hooks.actions import Action as Action
    from agentrail.hooks.actions import AddContext as AddContext
    from agentrail.hooks.actions import Ask as Ask
    from agentrail.hooks.actions import BlockTool as BlockTool
    from agentrail.hooks.actions import Continue as Continue
    from agentrail.hooks.actions import Emit as Emit
    from agentrail.hooks.actions import HoldTool as HoldTool
    from agentrail.hooks.actions import Intervene as Intervene
    from agentrail.hooks.actions import ReplaceMessages as ReplaceMessages
    from agentrail.hooks.actions import ReplacePrompt as ReplacePrompt
    from agentrail.hooks.actions import ReplaceResponse as ReplaceResponse
    from agentrail.hooks.actions import ReplaceToolArgs as ReplaceToolArgs
    from agentrail.hooks.actions import ReplaceToolResult as ReplaceToolResult
    from agentrail.hooks.actions import SetSection as SetSection
    from agentrail.hooks.actions import Skip as Skip
    from agentrail.hooks.actions import SwitchModel as SwitchModel
    from agentrail.hooks.context import Context as Context
    from agentrail.hooks.plugin import Plugin as Plugin
    from agentrail.hooks.plugin import Priority as Priority
    from agentrail.ports.agents import Task as Task
    from agentrail.ports.handles.protocols import AnySession as AnySession
    from agentrail.ports.handles.protocols import AnySupervisor as AnySupervisor
    from agentrail.ports.handles.protocols import awaited as awaited
    from agentrail.ports.handles.session_values import ChildView as ChildView
    from agentrail.ports.handles.session_values import HeldCall as HeldCall
    from agentrail.ports.handles.session_values import Reply as Reply
    from agentrail.ports.handles.session_values import SessionDown as SessionDown
    from agentrail.ports.handles.session_values import Status as Status
    from agentrail.ports.tool import Service as Service
    from agentrail.remote.remote_events import RemoteSubscription as RemoteSubscription
    from agentrail.remote.remote_session import RemoteSession as RemoteSession
    from agentrail.remote.remote_supervisor import RemoteSupervisor as RemoteSupervisor
    from agentrail.remote.remote_supervisor import connect as connect
    from agentrail.remote.remote_views import RemoteView as RemoteView
    from agentrail.runtime.diagnosis.crash_reports import CrashReport as CrashReport
    from agentrail.runtime.events.subscription import Subscription as Subscription
    from agentrail.runtime.events.tracing import ActorTrace as ActorTrace
    from agentrail.runtime.events.tracing import TracedStep as TracedStep
    from agentrail.runtime.handle import SessionHandle as SessionHandle
    from agentrail.runtime.inbox.replies import AskedPrompt as AskedPrompt
    from agentrail.runtime.status import Monitor as Monitor
    from agentrail.tools import tool as tool
    from agentrail.values.secrets import Secret as Secret
    from agentrail.version import __version__ as __version__

_HOMES = {
    "Abort": "agentrail.hooks.actions",
    "Accepted": "agentrail.core.vocabulary.commands",
    "Action": "agentrail.hooks.actions",
    "ActorTrace": "agentrail.runtime.events.tracing",
    "AddContext": "agentrail.hooks.actions",
    "AnySession": "agentrail.ports.handles.protocols",
    "AnySupervisor": "agentrail.ports.handles.protocols",
    "Ask": "agentrail.hooks.actions",
    "AskedPrompt": "agentrail.runtime.inbox.replies",
    "BlockTool": "agentrail.hooks.actions",
    "ChildView": "agentrail.ports.handles.session_values",
    "Context": "agentrail.hooks.context",
    "Continue": "agentrail.hooks.actions",
    "CrashReport": "agentrail.runtime.diagnosis.crash_reports",
    "Emit": "agentrail.hooks.actions",
    "HeldCall": "agentrail.ports.handles.session_values",
    "HoldTool": "agentrail.hooks.actions",
    "Intervene": "agentrail.hooks.actions",
    "Monitor": "agentrail.runtime.status",
    "Options": "agentrail.core.vocabulary.options",
    "Plugin": "agentrail.hooks.plugin",
    "Priority": "agentrail.hooks.plugin",
    "Prompt": "agentrail.core.vocabulary.state",
    "RemoteSession": "agentrail.remote.remote_session",
    "RemoteSubscription": "agentrail.remote.remote_events",
    "RemoteSupervisor": "agentrail.remote.remote_supervisor",
    "RemoteView": "agentrail.remote.remote_views",
    "ReplaceMessages": "agentrail.hooks.actions",
    "ReplacePrompt": "agentrail.hooks.actions",
    "ReplaceResponse": "agentrail.hooks.actions",
    "ReplaceToolArgs": "agentrail.hooks.actions",
    "ReplaceToolResult": "agentrail.hooks.actions",
    "Reply": "agentrail.ports.handles.session_values",
    "Secret": "agentrail.values.secrets",
    "Service": "agentrail.ports.tool",
    "SessionDown": "agentrail.ports.handles.session_values",
    "SessionHandle": "agentrail.runtime.handle",
    "SessionSpec": "agentrail.app.spec",
    "SetSection": "agentrail.hooks.actions",
    "Skip": "agentrail.hooks.actions",
    "SpecWanted": "agentrail.app.spec",
    "Specs": "agentrail.app.spec",
    "State": "agentrail.core.vocabulary.state",
    "Status": "agentrail.ports.handles.session_values",
    "Subscription": "agentrail.runtime.events.subscription",
    "Supervisor": "agentrail.app.supervisor",
    "SwitchModel": "agentrail.hooks.actions",
    "Task": "agentrail.ports.agents",
    "TracedStep": "agentrail.runtime.events.tracing",
    "__version__": "agentrail.version",
    "awaited": "agentrail.ports.handles.protocols",
    "blueprint": "agentrail.app.preparing.blueprint",
    "connect": "agentrail.remote.remote_supervisor",
    "open_supervisor": "agentrail.app.supervisor",
    "run": "agentrail.app.process",
    "tool": "agentrail.tools",
}

_PACKAGES = (
    "errors",
    "events",
    "host",
    "journals",
    "mcp",
    "models",
    "plugins",
    "sandboxes",
    "testing",
    "tools",
)
"""The packages from which programs may import; all others are internal."""

__all__ = [name for name in _HOMES if name != "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES, _PACKAGES)
