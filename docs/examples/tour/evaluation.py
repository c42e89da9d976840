"""An evaluation: answers of yesterday that were wrong become cases, and say whether a new prompt is better.

The tools of the cases answer as they did then, and never run.

    contains: better, 0.00 → 1.00 in 8 cases
    money was paid back 8 times, by the sessions of yesterday
"""

import msgspec
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.evals import Case, compare, contains, experiment
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, ModelRequest, Response, UserMessage
from agentrail.testing import call, say

PAID: list[int] = []


@tool
async def refund(order: int) -> str:
    """Give the money for an order back."""
    PAID.append(order)
    return "done"


class Clerk:
    """Stands for a model: it is as kind as its prompt."""

    name = "clerk"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        if isinstance(request.messages[-1], UserMessage):
            order = int(request.messages[-1].text.split()[-1])
            return say(calls=[call("refund", {"order": order})]).response
        return say("Sorry! Your refund is on its way." if "kind" in request.system else "Done.").response


async def main() -> None:
    old = SessionSpec(model=Clerk(), tools=[refund], system="Answer.")
    new = old.but(system="Answer, and be kind.")
    cases, journal = list[Case](), MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        for order in range(8):
            session = await supervisor.spawn(old)
            await session.ask(f"I want my money back for order {order}")
            case = Case.of(await journal.read(session.id, 0, 100), 1, name=f"order-{order}")
            cases.append(msgspec.structs.replace(case, expected="sorry"))
    before = await experiment(cases, old, [contains], repeats=3)
    after = await experiment(cases, new, [contains], repeats=3)
    for change in compare(before, after).scorers:
        means = f"{change.before:.2f} → {change.after:.2f}"
        print(f"{change.scorer}: {change.verdict}, {means} in {len(change.cases)} cases")
    print(f"money was paid back {len(PAID)} times, by the sessions of yesterday")


trio.run(main)
