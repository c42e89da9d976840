"""Calls that programs need which use a session as they would use one of their own; most people need none of them."""

from __future__ import annotations

from typing import Final

from agentrail import errors
from agentrail.wire import bodies
from agentrail.wire.call_rows import handle_views
from agentrail.wire.call_rows.host_call import TALK, TURN, HostCall

HANDLE_CALLS: Final = (
    HostCall(
        "ask",
        "ask the session",
        "talk",
        "admin",
        body=bodies.PromptBody,
        gives=handle_views.WholeReplyView,
        held=True,
        command=True,
        raises=(*TALK, *TURN),
    ),
    HostCall(
        "stop",
        "end the session",
        "talk",
        "admin",
        body=bodies.StopBody,
        status=204,
        command=True,
        raises=(errors.NotWrittenYet,),
    ),
    HostCall(
        "label",
        "label the session",
        "talk",
        "admin",
        body=bodies.LabelBody,
        status=204,
        command=True,
        raises=(errors.TooManyLabels,),
    ),
    HostCall("queued", "show the queue", "talk", "observe", gives=handle_views.QueueView),
    HostCall(
        "withdraw",
        "withdraw the prompt",
        "talk",
        "admin",
        body=bodies.WithdrawBody,
        status=204,
        command=True,
        raises=(errors.UnknownPrompt,),
    ),
    HostCall("suspend", "suspend the session", "talk", "admin", status=204),
    HostCall("resume", "resume the session", "talk", "admin", status=204),
    HostCall("offered", "show what the session may be given", "talk", "observe", gives=handle_views.OfferedView),
    # Sub-agents
    HostCall("tasks", "list the sub-agents", "talk", "observe", gives=handle_views.TasksView),
    HostCall(
        "message_task",
        "write to the sub-agent",
        "talk",
        "admin",
        body=bodies.MessageTaskBody,
        status=204,
        command=True,
        raises=(errors.UnknownTask, errors.TaskDone),
    ),
    HostCall(
        "cancel_task",
        "stop the sub-agent",
        "talk",
        "admin",
        query=bodies.TaskQuery,
        status=204,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall(
        "task_result",
        "wait for the sub-agent",
        "talk",
        "observe",
        query=bodies.TaskQuery,
        gives=handle_views.TaskResultView,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall(
        "wait_tasks",
        "wait for sub-agents",
        "talk",
        "observe",
        query=bodies.WaitTasksQuery,
        gives=handle_views.TaskResultsView,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall("agents", "list the agents", "talk", gives=handle_views.AgentsView),
)
"""Rows of the table of calls."""
