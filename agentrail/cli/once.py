"""One prompt and its answer, with nobody there to ask."""

from __future__ import annotations

from agentrail.cli.rendering import piece_of, shown_args
from agentrail.cli.screen import Tone, line
from agentrail.cli.terminal import Terminal
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events import AgentAbort, AgentEnd, ApprovalRequired, AskUser, PromptRejected

NOBODY = "nobody is here to ask"


async def once(session: SessionHandle, terminal: Terminal, text: str) -> bool:
    """Show what *text* leads to, and return whether its turn ended by itself; what would need a person is refused."""
    async with session.subscribe() as events:
        ref = (await session.prompt(text)).ref
        async for envelope in events:
            piece = piece_of(envelope)
            if piece is not None:
                terminal.show((piece,))
            match envelope.event:
                case ApprovalRequired(approval_id=approval_id, tool=tool, args=args):
                    terminal.show((line(f"  ? {tool} {shown_args(args)}", Tone.ASKING),))
                    await session.reject(approval_id, NOBODY, auto_resume=True)
                case AskUser(ref=question):
                    await session.respond(question, NOBODY)
                case AgentEnd(ref=ended) if ended == ref:
                    return True
                case AgentAbort(ref=ended) | PromptRejected(ref=ended) if ended == ref:
                    return False
                case _ if terminal.gone:
                    return False
                case _:
                    pass
    return False
