"""A session at each of its records: what came in, and what that did.

It is told from the records alone: nothing runs again, and no model is asked.

    1 SessionOpened, then idle
    2 PromptSent, then running
    3 StreamEnded, then idle: the call waits for a person
    4 ApproveSent, then executing_tools: it went on
    5 ToolReturned, then running
    6 StreamEnded, then idle
    record 5 has changed phase, history[2:3], round, request, batch
    approval of pay: HumanApproval, records 3 to 4: approved
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.insight import SpanKind, at, timeline
from agentrail.journals import MemoryJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say


@tool
async def pay(euros: int) -> str:
    """Pay a bill."""
    return f"paid {euros}"


async def main() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([say(calls=[call("pay", {"euros": 30})]), "It is paid."])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "desk")
        reply = await session.ask("Pay the bill.", command="bill")
        await session.approve(reply.held[0])
        await session.ask("Pay the bill.", command="bill")  # the same command: how its turn went on
        records = await journal.read("desk")
    found = timeline(records)
    for row in found.rows:
        ruled = [run.sentence.partition(" (")[0].partition(", ")[0] for run in row.hooks]
        print(row.record, f"{row.input}, then {': '.join([row.after.value, *ruled])}")
    print("record 5 has changed", ", ".join(change.field for change in at(records, 5).changes[:5]))
    for span in found.spans:
        if span.kind is SpanKind.APPROVAL:
            print(f"approval of {span.label}, records {span.first} to {span.last}: {span.outcome}")


trio.run(main)
