"""Approval in a terminal: the program asks for each call that waits, and the exact call that was shown is what runs.

Answers are `y`, `a` (always: later calls of the same kind pass), or why not; the end of input is a no. Arguments are
shown by `repr`, so nothing that the model writes can pass for another question. Without a terminal the answers are
made up here.

    delete path='notes.txt'? y
    delete path='plan.txt'? we need it
    deleted notes.txt
    rejected by the user: we need it
"""

from __future__ import annotations

import sys
from functools import partial

import trio

from agentrail import HeldCall, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import UnknownApproval
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say

MADE_UP = iter(["y", "we need it"])


@tool(effect="idempotent")
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def answer(question: str) -> str:
    """Return what the person at the terminal says."""
    if sys.stdin is not None and sys.stdin.isatty():
        try:
            return input(question)
        except EOFError:
            return "nobody is there to decide"
    said = next(MADE_UP)
    print(question + said)
    return said


async def decide(session: SessionHandle, held: HeldCall) -> None:
    """Ask about a call that waits, without blocking the program."""
    question = f"{held.tool} {' '.join(f'{name}={value!r}' for name, value in held.args.items())}? "
    said = await trio.to_thread.run_sync(partial(answer, question), abandon_on_cancel=True)
    try:
        if said in {"y", "a"}:
            await session.approve(held, always=said == "a")
        else:
            await session.reject(held, said, auto_resume=True)
    except UnknownApproval:  # `HumanApproval` waits for two minutes, unless you say otherwise
        print("that came too late: the call has not run")


async def main() -> None:
    """Ask the agent, and the person whenever it waits."""
    deletes = [call("delete", {"path": path}) for path in ("notes.txt", "plan.txt")]
    model = ScriptedModel([say(calls=deletes), "Done."])
    spec = SessionSpec(model=model, tools=[delete], plugins=[HumanApproval(tools=["delete"])])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        while (reply := await session.ask("Tidy up.", command="tidy")).held:  # the same command: the same turn
            await decide(session, reply.held[0])
        for message in session.messages()[2:4]:
            print(message.text)


trio.run(main)
