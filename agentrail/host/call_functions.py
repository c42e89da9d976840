"""The functions of calls, by the names that `agentrail.api.operation_table` gives the calls."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.host.ag_ui.ag_ui_calls import AgUiCalls
from agentrail.host.health.prometheus import MetricCalls
from agentrail.host.health.watch_calls import WatchCalls
from agentrail.host.operations.call import CallFunction
from agentrail.host.operations.console_calls import ConsoleCalls
from agentrail.host.operations.host_calls import HostCalls
from agentrail.host.operations.query_calls import QueryCalls
from agentrail.host.operations.record_calls import RecordCalls
from agentrail.host.operations.session_calls import ListingCalls, SessionLifeCalls
from agentrail.host.operations.subagent_calls import SubagentCalls
from agentrail.host.operations.talk_calls import TalkCalls
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.http_messages import Handler
from agentrail.host.websocket.sockets import Sockets


def session_functions(calls: SessionLifeCalls) -> Mapping[str, CallFunction]:
    """Return the functions of the calls that make, list, show and delete sessions."""
    return {
        "open_session": calls.open,
        "list_sessions": calls.list,
        "show_session": calls.show,
        "delete_session": calls.delete,
        "fork": calls.fork,
        "tree": calls.tree,
    }


def view_functions(listing: ListingCalls, looking: ViewCalls) -> Mapping[str, CallFunction]:
    """Return the functions of the calls that show what waits for a decision, and what happens in a session."""
    return {
        "approvals": listing.approvals,
        "commands": listing.commands,
        "events": looking.events,
        "messages": looking.messages,
    }


def talk_functions(calls: TalkCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls that send something to a session, by the name of the call."""
    return {
        "chat": calls.chat,
        "stream": calls.stream,
        "prompt": calls.prompt,
        "steer": calls.steer,
        "ask": calls.ask,
    }


def ag_ui_functions(calls: AgUiCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls of AG-UI, by the name of the call."""
    return {"ag_ui_run": calls.run, "ag_ui_follow": calls.follow}


def query_functions(queries: QueryCalls, subagents: SubagentCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls that only read a session, its sub-agents or the profiles, by name."""
    return {
        "queued": queries.queued,
        "offered": queries.offered,
        "agents": queries.agents,
        "identity": queries.identity,
        "tasks": subagents.tasks,
        "task_result": subagents.result,
        "wait_tasks": subagents.wait,
    }


def record_functions(calls: RecordCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls that explain a session from its records, by the name of the call."""
    return {
        "records": calls.records,
        "why": calls.why,
        "state_at": calls.state_at,
        "timeline": calls.timeline,
        "seen": calls.seen,
    }


def watch_functions(calls: WatchCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls that watch all sessions of a tenant, by the name of the call."""
    return {"rows": calls.rows, "trouble": calls.trouble, "figures": calls.figures}


def host_functions(calls: HostCalls, metrics: MetricCalls) -> Mapping[str, CallFunction]:
    """Return the functions for the calls about the host itself, by the name of the call."""
    return {
        "health": calls.health,
        "ready": calls.ready,
        "metrics": metrics.metrics,
    }


def page_functions(console: ConsoleCalls, calls: HostCalls, sockets: Sockets) -> Mapping[str, Handler]:
    """Return what answers the calls that there are over HTTP alone, by the name of the call."""
    return {"page": console.page, "console_file": console.file, "openapi": calls.openapi, "socket": sockets.open}
