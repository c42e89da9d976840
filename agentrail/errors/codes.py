"""Errors that have no class of their own: by code, what happened, and what the error says.

A program acts on each of these as it does on any other error of the branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Texts(NamedTuple):
    """The texts of the errors with one code."""

    about: str
    """What happened."""
    says: str
    """What the error says: a template with a name for each fact, in their order."""


USAGE: Final[Mapping[str, Texts]] = {
    "asks-itself": Texts(
        "A tool or service asked a session whose turn waits for it, so neither would ever end",
        "`{asker}` cannot `ask` session `{session}`, whose turn waits for it{way}; return what its model is to "
        "know, send a text for the next turn by `prompt`, or ask another session",
    ),
    "bad-arguments": Texts(
        "Arguments do not fit a tool's schema",
        "these arguments do not fit `{tool}`: {problem}",
    ),
    "bad-deps": Texts(
        "A tool cannot get the dependencies that it wants: `SessionSpec.deps` is missing, does not fit, or raised",
        "cannot give a tool its `deps`: {problem}",
    ),
    "bad-mcp-server": Texts(
        "The options given for an MCP server are invalid",
        "cannot use the MCP server `{server}`: {problem}",
    ),
    "bad-supervisor": Texts(
        "The numbers for the restarts of a supervisor are invalid",
        "cannot supervise with max_restarts={max_restarts} and period={period}; give 0 or more restarts in more "
        "than 0 seconds",
    ),
    "child-exists": Texts(
        "Two children of a supervisor cannot have one name",
        "a child `{child}` is there already; use another name, or stop that one first",
    ),
    "ended-too-often": Texts(
        "A child that is to run for ever has ended, without an error, more often than it may be restarted",
        "`{child}` has ended too often, without an error; let it run until it is cancelled, or use `transient`",
    ),
    "loop-gone": Texts(
        "The asyncio loop in which a supervisor was opened was closed before the supervisor was left",
        "the asyncio loop that opened the supervisor is closed, so the supervisor ends; leave the supervisor before "
        "the loop ends",
    ),
    "model-exists": Texts(
        "Two models of one session cannot have one name",
        "this session knows another model named `{model}`; give the new one a name of its own",
    ),
    "no-family": Texts(
        "A call cannot be approved for always, because the plugin that holds it named no family of commands",
        "cannot always approve `{approval}`: the plugin that holds it named no family; approve it once",
    ),
    "no-host-loop": Texts(
        "Code that is marked for the asyncio loop of the program was given to a supervisor without such a loop",
        "{what} is an asyncio function and no asyncio loop is there; open the supervisor by `agentrail.aio`, or "
        "write it for Trio",
    ),
    "no-trio-run": Texts(
        "A supervisor, a host or a connection to one was opened outside of Trio",
        "cannot {attempt} here: no Trio run; call your main function by `trio.run(main)`; on asyncio, use "
        "`agentrail.aio`, and without `await`, `agentrail.sync`",
    ),
    "not-in-its-run": Texts(
        "A session was called from outside of the Trio run of its supervisor",
        "cannot talk to session `{session}` from here: this is another thread or another event loop; call it inside "
        "the Trio run of its supervisor, from a thread by `trio.from_thread.run`; on asyncio, open the supervisor "
        "by `agentrail.aio`",
    ),
    "plugin-exists": Texts(
        "Two plugins of a session cannot have one key, which by default is the name of the class",
        'a plugin `{plugin}` is attached already; give the second one a key: `Keyed("another", {plugin}(…))`, from '
        "`agentrail.plugins`",
    ),
    "source-alone": Texts(
        "A source of tools was given together with other tools, but must be attached by a separate call",
        "cannot attach the source of tools `{source}` together with others: a call attaches all or nothing, and a "
        "source is there only when it has started; attach each by a call of its own",
    ),
    "source-exists": Texts(
        "Two sources of tools cannot have one name",
        "a source of tools named `{source}` is attached already; detach it first, or use `replace_tools`",
    ),
    "task-done": Texts(
        "A message came too late: the sub-agent has given its answer",
        "the task of `{child}` is done, so it reads no messages; take its answer, and give a new task if more is to do",
    ),
    "would-deadlock": Texts(
        "A call of `agentrail.sync` would block the thread that has to answer it",
        "a call that blocks would never return in {where}; {advice}",
    ),
}

REFUSED: Final[Mapping[str, Texts]] = {}

OUTSIDE: Final[Mapping[str, Texts]] = {}
