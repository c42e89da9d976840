"""Which function carries out which of the calls of upkeep."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.host.answering.by_programs.subagent_calls import SubagentCalls
from agentrail.host.answering.by_programs.upkeep_calls import UpkeepCalls
from agentrail.host.answering.call_request import CarryOut


def upkeep_functions(upkeep: UpkeepCalls, tasks: SubagentCalls) -> Mapping[str, CarryOut]:
    """Return the functions, by the names of their calls."""
    return {
        "stop": upkeep.stop,
        "label": upkeep.label,
        "queued": upkeep.queued,
        "withdraw": upkeep.withdraw,
        "suspend": upkeep.suspend,
        "resume": upkeep.resume,
        "offered": upkeep.offered,
        "agents": upkeep.agents,
        "tasks": tasks.tasks,
        "message_task": tasks.message,
        "cancel_task": tasks.cancel,
        "task_result": tasks.result,
        "wait_tasks": tasks.wait,
    }
