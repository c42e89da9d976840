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
    "app-not-opened": Texts(
        "The ASGI app of a host was used while it was not open",
        "cannot use the app of the host: it is not open; a mounted app gets no lifespan, so open it in that of the "
        "app around it, by `async with app:`",
    ),
    "argument-raised": Texts(
        "An object that was given as an argument raised an exception when it was looked at",
        "cannot take a `{found}` as `{argument}`: its own code raised {problem}; correct its class",
    ),
    "asks-itself": Texts(
        "A tool or service asked a session whose turn waits for it, so neither would ever end",
        "`{asker}` cannot `ask` session `{session}`, whose turn waits for it{way}; return what its model is to "
        "know, send a text for the next turn by `prompt`, or ask another session",
    ),
    "async-wanted": Texts(
        "What is read by `async with` and `async for` was read by another statement",
        "cannot read a `{kind}` by `{statement}`; write `{instead}`, or use `agentrail.sync`, which blocks",
    ),
    "bad-arguments": Texts(
        "Arguments do not fit a tool's schema",
        "these arguments do not fit `{tool}`: {problem}",
    ),
    "bad-body": Texts(
        "A body is JSON, but not what the call takes",
        "the body of `{call}` does not fit: {at} {problem}; `/openapi.json` has its schema",
    ),
    "bad-case": Texts(
        "A case of an evaluation could never be run",
        "cannot use the case `{case}`: {problem}",
    ),
    "bad-case-file": Texts(
        "A file of cases cannot be read, or one of its lines is no case",
        "cannot read the cases in {path}: {problem}",
    ),
    "bad-at-once": Texts(
        "A back-test is to be made by no process",
        "cannot test sessions in {count} processes; `at_once` is a number from 1 on",
    ),
    "bad-beyond": Texts(
        "A back-test is to go on behind its first difference in a way that there is not",
        "cannot go on {beyond!r} behind the first difference; `beyond` is `stop` or `as recorded`",
    ),
    "bad-candidate": Texts(
        "A plugin of a back-test does not take its other options",
        "cannot test `{plugin}` with these options: {problem}",
    ),
    "bad-deps": Texts(
        "A tool cannot get the dependencies that it wants: `SessionSpec.deps` is missing, does not fit, or raised",
        "cannot give a tool its `deps`: {problem}",
    ),
    "bad-document-name": Texts(
        "A document cannot have this name",
        "no document of a store can be called `{name}`: {problem}; give another name",
    ),
    "bad-evaluation": Texts(
        "An experiment, a score or a comparison cannot be made with these arguments",
        "cannot {attempt}: {problem}",
    ),
    "bad-mcp-server": Texts(
        "The options given for an MCP server are invalid",
        "cannot use the MCP server `{server}`: {problem}",
    ),
    "bad-message": Texts(
        "The content of a prompt or of steering is not text, image, file or data that can be stored",
        "cannot use this content: {what} is {found}; use text, or a list of `Text`, `Image`, `File` and `Data`",
    ),
    "bad-query": Texts(
        "The query of an address, or a header that says the same, is not what the call takes",
        "the query of `{call}` does not fit: {at} {problem}; `/openapi.json` says what it takes",
    ),
    "bad-store-name": Texts(
        "A store of knowledge cannot have this name",
        "no store of knowledge can be called `{name}`: {problem}; give another name",
    ),
    "bad-supervisor": Texts(
        "The numbers for the restarts of a supervisor are invalid",
        "cannot supervise with max_restarts={max_restarts} and period={period}; give 0 or more restarts in more "
        "than 0 seconds",
    ),
    "bad-web-access": Texts(
        "The options given for access to the web are invalid",
        "cannot make this `WebAccess`: {problem}",
    ),
    "child-exists": Texts(
        "Two children of a supervisor cannot have one name",
        "a child `{child}` is there already; use another name, or stop that one first",
    ),
    "document-too-large": Texts(
        "A document is larger than a store takes",
        "the document `{name}` is too large: {limit} are the most; add it in parts",
    ),
    "document-unreadable": Texts(
        "The text of a document cannot be read",
        "cannot read the text of the document `{name}`: {problem}",
    ),
    "ended-too-often": Texts(
        "A child that is to run for ever has ended, without an error, more often than it may be restarted",
        "`{child}` has ended too often, without an error; let it run until it is cancelled, or use `transient`",
    ),
    "history-too-long": Texts(
        "A session has too many records for a call that reads all of them",
        "the session has {records} records, and the call reads {most} at most; read its records page by page",
    ),
    "line-left": Texts(
        "A connection to a host was used after its `async with` was left",
        "there is no connection to the host at {address} any more: its `async with` was left; use it inside",
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
    "no-candidate": Texts(
        "A back-test was given nothing that differs from what the sessions had",
        "cannot test nothing; give `plugins`, or `options` of those that the sessions had",
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
    "no-changed-file": Texts(
        "A file was to be brought back that no call has changed since then",
        "cannot bring back {path!r}: no snapshots show that a call has changed a file of this path since then; nothing "
        "was changed; `preview_rewind` names the files that can come back",
    ),
    "no-processes": Texts(
        "A back-test cannot be made by several processes",
        "cannot test these sessions in several processes: give the path of their journal, and plugins of a module that "
        "can be imported, which pickle can store; or leave out `at_once`",
    ),
    "no-sessions": Texts(
        "A back-test was given a file that is not there",
        "cannot read the sessions of {file}: there is no such file; name a journal, or an export of one",
    ),
    "no-snapshots": Texts(
        "Files were to be brought back in a session whose sandbox takes no snapshots",
        "cannot bring back files of session `{session}`: its sandbox takes no snapshots; give its specification "
        "`LocalSandbox(folder, snapshots=True)`",
    ),
    "no-trio-run": Texts(
        "A supervisor, a host or a connection to one was opened outside of Trio",
        "cannot {attempt} here: no Trio run; call your main function by `trio.run(main)`; on asyncio, use "
        "`agentrail.aio`, and without `await`, `agentrail.sync`",
    ),
    "no-turn": Texts(
        "The session has had no turn yet",
        "session `{session}` has had no turn yet, and no prompt waits for one; prompt it, then wait for its reply",
    ),
    "no-knowledge": Texts(
        "A host that keeps no knowledge was asked for some",
        "this host keeps no knowledge; give it a folder, `Host(…, knowledge=KnowledgeFolder(…))`",
    ),
    "no-written-file": Texts(
        "The agent of a session wrote no file at a path, or the file is not there any more",
        "the list of what the agent wrote has no {path!r}; give a path that the list has",
    ),
    "not-in-its-run": Texts(
        "A session was called from outside of the Trio run of its supervisor",
        "cannot talk to session `{session}` from here: this is another thread or another event loop; call it inside "
        "the Trio run of its supervisor, from a thread by `trio.from_thread.run`; on asyncio, open the supervisor "
        "by `agentrail.aio`",
    ),
    "not-registered": Texts(
        "Nothing is registered under a name that stands for code: a tool, a plugin or a model",
        "no {kind} is registered as {name!r}; registered are {known}",
    ),
    "other-embedder": Texts(
        "A store of knowledge was made with another embedder, or other chunks",
        "the store `{path}` was made with {present}, and not with {other}; give that one, or make it anew by "
        "`agentrail knowledge rebuild --store FILE --embedder NAME`",
    ),
    "plugin-exists": Texts(
        "Two plugins of a session cannot have one key, which by default is the name of the class",
        'a plugin `{plugin}` is attached already; give the second one a key: `Keyed("another", {plugin}(…))`, from '
        "`agentrail.plugins`",
    ),
    "session-unfinished": Texts(
        "A session cannot be redacted, because its turn is open, or prompts wait: it would go on without their texts",
        "cannot redact session `{session}`: its turn is open, or prompts wait, and it would go on without their "
        "texts; `supervisor.resume({session!r}, spec)` and wait until it is idle or `stop()` it, or delete it",
    ),
    "snapshot-gone": Texts(
        "A snapshot of files is no longer kept: it is too old, or there are too many newer ones",
        "cannot restore the files: the kept content `{digest}` is gone; snapshots are kept for 30 days, and only the "
        "last ones of a folder",
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
    "spec-missing": Texts(
        "A session cannot be resumed, because no specification was given for its code",
        "cannot resume `{session}`: its specification is called {name!r}, and there is none of that name; give one "
        "to `resume`, or open the supervisor with `specs={{name: build}}`",
    ),
    "task-done": Texts(
        "A message came too late: the sub-agent has given its answer",
        "the task of `{child}` is done, so it reads no messages; take its answer, and give a new task if more is to do",
    ),
    "too-many-documents": Texts(
        "A store of knowledge has as many documents as it takes",
        "a store takes {limit} documents; remove some, or use another store",
    ),
    "too-many-labels": Texts(
        "A session would have more labels than it may",
        "the session would have {labels} labels, and may have {most}; remove some in the same call",
    ),
    "turn-goes-on": Texts(
        "The reply of a `stream` was read before its last event",
        "there is no `reply` yet: read the events to their end first, by `async for event in turn:`; or use `ask`, "
        "which returns the reply alone",
    ),
    "unknown-candidate": Texts(
        "A host has no plugins to try under the name that was given",
        "there is no candidate `{candidate}` here; there are: {names}",
    ),
    "unknown-command": Texts(
        "A message looks like a command, and the host has none of this name",
        "there is no command {command!r} here; {advice}; begin with a space to send the message as it is",
    ),
    "unknown-document": Texts(
        "A store of knowledge has no document of this name",
        "there is no document `{name}`; list the documents to see what there is",
    ),
    "unknown-file": Texts(
        "No file of this name was uploaded to the session",
        "the session has no uploaded file {name!r}; upload it first, and give the name that comes back",
    ),
    "unknown-key": Texts(
        "A file of keys has no key with this id",
        "there is no key {key!r} in {path}; `agentrail serve keys list` lists them",
    ),
    "unknown-passage": Texts(
        "A store of knowledge has no passage with this citation",
        "there is no passage `{citation}`; a citation is a document and the number of a passage, such as "
        "`handbook.md#3`",
    ),
    "unknown-route": Texts(
        "The host has nothing at this path",
        "there is nothing at {path!r}; `/openapi.json` lists what there is",
    ),
    "unknown-store": Texts(
        "A tenant has no store of knowledge under the name that was given",
        "there is no store `{store}`; it begins when the first document is put into it",
    ),
    "unknown-turn": Texts(
        "The session has begun no turn with this prompt",
        "session `{session}` has begun no turn with the prompt `{ref}`; its events `PromptReceived` have the refs, "
        "and a fork has those of its own turns alone",
    ),
    "upgrade-wanted": Texts(
        "The address is for WebSockets alone, and the request is no handshake of one",
        "the request is no handshake of a WebSocket: {problem}; send one as RFC 6455, version 13, has it",
    ),
    "would-deadlock": Texts(
        "A call of `agentrail.sync` would block the thread that has to answer it",
        "a call that blocks would never return in {where}; {advice}",
    ),
    "wrong-content": Texts(
        "An uploaded file is not of the media type that it is sent with",
        "the content of the file is not `{media_type}`; send it with the media type that it has, or with none",
    ),
    "wrong-media": Texts(
        "A body is of a media type that the call does not take",
        "the body is `{found}`; send `{wanted}`",
    ),
}

REFUSED: Final[Mapping[str, Texts]] = {
    "agent-not-allowed": Texts(
        "The user of the command line has neither begun the agent of a session, nor allowed the session to come back",
        "`{session}` is a session whose agent you have not begun in this journal ({agent}), so nothing of it runs; "
        "`agentrail chat --resume {named}` shows it at a terminal, and asks",
    ),
    "file-too-large": Texts(
        "A file that an agent wrote is larger than a host sends",
        "`{path}` has {size} bytes, and {limit} are the most; have the agent write it in parts",
    ),
    "files-too-large": Texts(
        "The files of a session take as much space as they may",
        "the files of the session would have more than {limit} bytes; go on in another session",
    ),
    "four-eyes-wanted": Texts(
        "A change would let one person run calls that nobody else has seen, and the host wants four eyes",
        "{what} would let calls run that nobody else has seen, and the host wants four eyes; {advice}",
    ),
    "own-decision": Texts(
        "Who asked for something may not decide about it, because the host wants four eyes",
        "you ask for `{approval}` yourself, by words or arguments of yours; another person has to decide",
    ),
    "store-full": Texts(
        "A store of knowledge takes as much space as it may",
        "the store has {size} bytes, and {limit} are the most; delete documents, or use another store",
    ),
    "too-many-files": Texts(
        "A session has as many files as it may",
        "the session has {limit} files, the most that it may have; go on in another session",
    ),
    "too-many-sessions": Texts(
        "The tenant has as many sessions as it may",
        "the tenant has {limit} sessions, which is all it may have; delete one, or wait until one ends",
    ),
    "too-many-stores": Texts(
        "The tenant has as many stores of knowledge as it may",
        "the tenant has {limit} stores, which is all it may have; erase one, or use one of them",
    ),
    "too-many-streams": Texts(
        "The tenant has as many streams of events open as it may",
        "the tenant has {limit} streams of events open, which is all it may have; close one",
    ),
    "tool-changed": Texts(
        "The tool of a held call was detached or replaced after the question about the call was asked",
        "cannot approve `{approval}`: its tool `{tool}` was detached or redefined since; reject it",
    ),
}

OUTSIDE: Final[Mapping[str, Texts]] = {
    "backtest-ended": Texts(
        "A process of a back-test has ended before its sessions were tested",
        "a process of the back-test has ended with {status}; what it wrote to standard error says why",
    ),
    "bad-embedding": Texts(
        "An embedder has returned what are no vectors of its texts",
        "the embedder `{embedder}` has not done what it should: {problem}; see that its model makes embeddings",
    ),
    "command-failed": Texts(
        "A command could not be started. A command that ran and failed raises no error; its exit code says so",
        "cannot run `{command}`: {problem}",
    ),
    "container-failed": Texts(
        "An engine of containers could not do what a `ContainerSandbox` asked of it",
        "`{engine}` runs no command in a container: {problem}",
    ),
    "container-gone": Texts(
        "The container of a session ended without the session",
        "the container `{container}` has ended ({problem}); the next command begins a new one, "
        "in which nothing is left of what was outside of the folder, such as in `/tmp`",
    ),
    "experiment-failed": Texts(
        "No run of an experiment came to a score: all have failed",
        "no run of `{name}` came to an end; the first error: {problem}",
    ),
    "knowledge-failed": Texts(
        "A store of knowledge could not be read or written; it may be tried again",
        "the store `{path}` could not {attempt} ({problem}); try again, and see that its disk has space and may be "
        "written",
    ),
    "knowledge-unusable": Texts(
        "A file is no store of knowledge, or is damaged",
        "the store `{path}` cannot be used: {problem}",
    ),
    "mcp-failed": Texts(
        "An MCP server could not be started, or has ended",
        "the MCP server `{server}` is not there: {problem}",
    ),
    "not-readable": Texts(
        "A file cannot be read",
        "cannot read `{path}`: {problem}",
    ),
    "plugin-failed": Texts(
        "A critical plugin of the host failed or was too late, so the request was not carried out",
        "the plugin `{plugin}` of the host could not be asked; try again later",
    ),
    "snapshot-damaged": Texts(
        "The kept content of a file is not what was kept",
        "cannot restore the files: the kept content `{digest}` is damaged; nothing was changed",
    ),
    "snapshot-not-kept": Texts(
        "A snapshot of files cannot be written to the folder of agentrail",
        "cannot keep a snapshot in `{folder}`: {problem}; remove what is not needed there, or work without snapshots",
    ),
    "snapshot-too-large": Texts(
        "A folder has too many files, bytes or rules for snapshots",
        "cannot take a snapshot of `{folder}`: it has {what}; work in a smaller folder, or name large parts in "
        "`.gitignore`",
    ),
}
