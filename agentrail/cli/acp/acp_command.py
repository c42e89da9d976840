"""`agentrail acp`: an agent for an editor, which starts it and talks to it by the Agent Client Protocol."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

import trio

from agentrail.app import process
from agentrail.cli.acp.editor_connection import EditorConnection
from agentrail.cli.acp.json_lines import LAST_WORDS, LineReader, LineWriter, own_input
from agentrail.cli.acp.peer import Peer
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.agents.chosen_agent import source_of
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.command_options import options_of
from agentrail.cli.exit_codes import INTERRUPTED, KEPT_STOP_WITHIN, WRONG_USAGE
from agentrail.cli.host.shared_host import open_shared
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.exit_status import tell, tell_more
from agentrail.cli.output.standard_output import StandardOutput, open_what_is_closed
from agentrail.cli.settings.setting_order import chosen_journal
from agentrail.errors import AgentrailError, SupervisorStuck


def main(**words: object) -> int:
    """Talk to the editor with the arguments *words* of `ChatOptions`, and return the exit code."""
    logging.getLogger("agentrail").addHandler(logging.StreamHandler(sys.stderr))
    try:
        options = options_of(ChatOptions, words)
    except (BadInputError, OSError) as error:
        tell(f"agentrail: {error}")
        return WRONG_USAGE
    open_what_is_closed()
    output = StandardOutput(sys.stdout)
    # Tools must not write to the stdout of the protocol, nor read the editor's messages from stdin.
    with output.alone(), own_input() as descriptor:
        code = process.run(partial(serve, options, LineReader(descriptor), output), stop_within=KEPT_STOP_WITHIN)
    return INTERRUPTED if code is None else code


async def serve(options: ChatOptions, reader: LineReader, output: StandardOutput) -> int:
    """Talk to the editor until it leaves, and return the exit code."""
    try:
        journal = chosen_journal(options.journal, None)
        async with open_shared(journal, profile_of) as supervisor:
            writer = LineWriter(output)
            begun_in = partial(_begun_in, AgentSeal(journal), options)
            connection = EditorConnection(supervisor, begun_in, Peer(writer))
            async with trio.open_nursery() as nursery:  # noqa: TID251 - the command line has its own tasks
                nursery.start_soon(writer.run)
                nursery.start_soon(_end_with, writer, nursery.cancel_scope)
                await connection.run(reader)
                writer.close()
                with trio.move_on_after(LAST_WORDS):
                    await writer.reader_left.wait()
                nursery.cancel_scope.cancel()
    except AgentrailError as error:
        tell(f"agentrail: {in_own_words(str(error))}")
        tell_more(error)
        if isinstance(error, SupervisorStuck):
            raise
        return 1
    return 0


def _begun_in(seal: AgentSeal, options: ChatOptions, folder: Path) -> AgentSource:
    """Return the agent of a new session in *folder*, with the seal of this user."""
    return seal.begun(source_of(options, folder))


async def _end_with(writer: LineWriter, scope: trio.CancelScope) -> None:
    """End the program (cancel its tasks) when the editor no longer reads standard output."""
    await writer.reader_left.wait()
    scope.cancel()
