"""The command line of `agentrail`: each subcommand with what a person reads of it, its arguments and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from agentrail.cli.click_commands import CliCommand, CommandGroup, HostCliCommand
from agentrail.cli.command_options import (
    AGENT,
    CHOSEN,
    FOLDER,
    KEPT_JOURNAL,
    MODEL,
    MODES,
    NO_CONFIG,
    PORT,
    SANDBOX,
    SESSION,
    Number,
    OneOf,
    Option,
    WholeNumber,
    agent_named,
    argument,
    cores_named,
    existing_file,
    existing_folder,
    files,
    filled_path,
    filled_text,
    flag_option,
    folders,
    journal_address,
    journal_file,
    journal_option,
    json_option,
    one_of,
    path_option,
    sandbox_option,
    text_option,
    token_named,
    utf8_text,
)

SHELLS: Final = ("bash", "zsh", "fish")
"""The shells that can complete the command."""

_CLI: Final = "agentrail.cli"

_TALKING: Final = (
    CliCommand(
        "chat",
        "talk to an agent in the terminal",
        f"{_CLI}.talk.chat:main",
        AGENT,
        MODEL,
        KEPT_JOURNAL,
        NO_CONFIG,
        *MODES,
        SANDBOX,
        FOLDER,
        flag_option("--continue", "last", "go on with the last session of the folder"),
        Option(
            ["--resume"],
            metavar="[SESSION]",
            type=utf8_text,
            is_flag=False,
            flag_value=CHOSEN,
            help="go on with this session (default: choose one)",
        ),
        flag_option("--samples", "has_samples", "work in a fresh folder with samples; keep nothing"),
        Option(
            ["--no-page", "has_page"],
            flag_value=False,
            default=True,
            help="open no port for the page in a browser",
        ),
        lasts=True,
        about="""\
Talk to an agent in the terminal; `agentrail run` answers one prompt, for
scripts. Sessions are kept: they outlive the terminal, and several terminals
may talk in one of them. Without FILE, it is an agent that works in a folder.""",
        example="""\
example: agentrail chat --continue
         agentrail chat app.py:desk --dir ~/project""",
    ),
    CliCommand(
        "run",
        "answer one prompt, for scripts",
        f"{_CLI}.running.run:main",
        click.Argument(["words"], metavar="[PROMPT | -]", nargs=-1),
        MODEL,
        path_option("--agent", "FILE[:NAME]", "a file with a SessionSpec (default: that of `chat`)", agent_named),
        SANDBOX,
        FOLDER,
        path_option("--schema", "FILE|JSON", "a JSON Schema: the answer is an object that fits it", str),
        *one_of("form", {"json": "print one object at the end; or each event, too", "events": ""}),
        *one_of(
            "decision",
            {
                "yes": "approve, or reject, calls that wait for a person",
                "deny": "",
                "answers": "read what a person would answer from standard input",
            },
        ),
        text_option("--max-usd", "X", "stop before it costs more", Number(min=0, min_open=True)),
        text_option("--max-rounds", "N", "stop after so many requests to the model", WholeNumber(1)),
        text_option("--max-seconds", "X", "stop after so many seconds", Number(min=0, min_open=True)),
        NO_CONFIG,
        flag_option("--keep", "keep", "keep the session: `chat --resume` shows it"),
        text_option("--resume", "SESSION", "go on with a session that is kept"),
        KEPT_JOURNAL,
        *one_of("progress", {"verbose": "show progress anyway, or never", "quiet": ""}),
        lasts=True,
        reports=True,
        about="""\
Print the answer to one prompt alone. What a pipe brings is placed below it.""",
        example="""\
exit status: 0 done, 1 failed, 2 usage, 3 held, 4 refused, 5 limit, 6 provider
example: git diff | agentrail run "Write a commit message." > message.txt""",
    ),
    CliCommand(
        "acp",
        "talk to an agent in an editor such as Zed",
        f"{_CLI}.acp.acp_command:main",
        AGENT,
        MODEL,
        KEPT_JOURNAL,
        NO_CONFIG,
        *MODES,
        SANDBOX,
        lasts=True,
        about="""\
Have an editor, such as Zed, talk to an agent. The editor starts this command,
and they exchange messages of the Agent Client Protocol over standard input and
output. Its sessions are those of `agentrail chat`: either goes on with them.""",
        example="""\
example: agentrail acp --edits
         agentrail acp app.py:desk""",
    ),
)

_SURE: Final = flag_option("--yes", "is_sure", "do not ask whether to delete, or to overwrite FILE")

_VIEWS: Final = (
    CliCommand(
        "why",
        "tell why it did what it did",
        f"{_CLI}.stored.why:main",
        SESSION,
        argument("subject", "[CALL|TURN|end]"),
        journal_option(),
        json_option("one for each thing that decided"),
        about="""\
Tell why a stored session did what it did: each plugin that was asked, in order,
what it answered, what that changed, and which rule decided. No plugin is run.

  SESSION  its id, or the name that chat shows
  CALL     the id of a tool call
  TURN     the number of a turn
  end      how the last turn, or the session, came to its end (the default)""",
        example="""\
example: agentrail sessions why trip
         agentrail sessions why trip call_7 --journal ./sessions.db""",
    ),
    CliCommand(
        "seen",
        "show what its model saw",
        f"{_CLI}.stored.seen:main",
        SESSION,
        argument("which", "[ROUND]"),
        flag_option("--body", "as_body", "print the request as its provider got it, byte for byte"),
        flag_option("--test", "as_test", "print a test with the conversation so far and the answer"),
        journal_option(),
        json_option("one for the request, as a host shows it"),
        about="""\
Show what the model of a stored session saw in a round: each part of the
request, where it comes from, how large it is, whether the provider had it in
its cache, and what differs from the request before. Nothing is sent.

  SESSION  its id, or the name that chat shows
  ROUND    the number of a round, counted over all turns from 1, or the id of
           a request such as r7 (the default is the last request)""",
        example="""\
example: agentrail sessions seen trip
         agentrail sessions seen trip 3 --body > request.json
         agentrail sessions seen trip 3 --test > test_trip.py""",
    ),
    CliCommand(
        "replay",
        "walk through its records",
        f"{_CLI}.stored.record_rows:main",
        SESSION,
        argument("record", "[RECORD]", WholeNumber(1, what="number of a record")),
        journal_option(),
        json_option("one for each record"),
        about="""\
Walk through the records of a stored session: what came in, the phase before
and after, what plugins ruled, which effects and events came of it. Of one
record also what it changed, and the state behind it. Nothing is run.

  SESSION  its id, or the name that chat shows
  RECORD   the number of a record (the default are all of them)""",
        example="""\
example: agentrail sessions replay trip
         agentrail sessions replay trip 12""",
    ),
    CliCommand(
        "top",
        "watch those that run at a host",
        f"{_CLI}.reports.top:main",
        argument("url", "[URL]"),
        text_option("--key", "NAME", "the variable with the host's key (default: KEY)", default="KEY"),
        path_option("--journal", "FILE", "without URL: the journal (default: the one of the user)", journal_file),
        lasts=True,
        about="""\
Show the sessions that run at a host, with their sub-agents: what each does,
which tokens and dollars it has used, what waits for a person, and at which host
it runs, if there are several. At a terminal it is drawn anew each second, and
Ctrl-C leaves; else it is printed once.

  URL   of the host, such as `agentrail serve` prints it, or unix:/PATH; without
        one, it is the journal that `agentrail chat` serves in another terminal""",
        example="""\
example: agentrail sessions top
         KEY=V2h5 agentrail sessions top https://agents.example.com""",
    ),
)
"""The ways to look at a session, as commands of `sessions`."""

_STORED: Final = (
    CommandGroup(
        "sessions",
        "look at sessions; move, fork and delete stored ones",
        CliCommand(
            "list",
            "all sessions, the last used one first",
            f"{_CLI}.stored.sessions_command:list_sessions",
            journal_option(),
            text_option("--label", "LABEL", "only sessions that have this label"),
            text_option("--limit", "N", "only the N that were used last", WholeNumber(1)),
            json_option(),
        ),
        CliCommand(
            "show",
            "what it is, and its last messages",
            f"{_CLI}.stored.sessions_command:show_session",
            SESSION,
            journal_option(),
            text_option("--messages", "N", "the last N messages (default: 10)", WholeNumber(0), default=10),
            json_option(),
        ),
        *_VIEWS,
        CliCommand(
            "export",
            "write it to a file that `import` reads",
            f"{_CLI}.stored.sessions_command:export_session",
            SESSION,
            argument("file", "FILE", complete=files),
            journal_option(),
            _SURE,
        ),
        CliCommand(
            "import",
            "read such a file into the journal",
            f"{_CLI}.stored.sessions_command:import_session",
            argument("file", "FILE", complete=files),
            journal_option(),
        ),
        CliCommand(
            "copy",
            "copy it into another journal",
            f"{_CLI}.stored.sessions_command:copy_session",
            SESSION,
            argument("target", "JOURNAL", complete=files),
            journal_option(),
        ),
        CliCommand(
            "fork",
            "begin one with its past, for `chat --resume`",
            f"{_CLI}.stored.sessions_command:fork_stored",
            SESSION,
            journal_option(),
            text_option("--at", "N", "the past up to its record N (default: all)", WholeNumber(1), dest="head"),
        ),
        CliCommand(
            "delete",
            "delete it and its sub-agents, for good",
            f"{_CLI}.stored.sessions_command:delete_session",
            SESSION,
            journal_option(),
            _SURE,
        ),
        default="list",
        about="""\
Look at sessions: what they said, why, what the model saw, what runs now; move
or delete those of a journal. None of them is run.
Each command has `--journal FILE` (default: the journal of the user).""",
        example="""\
example: agentrail sessions show trip --journal ./sessions.db
         agentrail sessions why trip
`agentrail sessions COMMAND --help` lists the options of a command.""",
    ),
    CommandGroup(
        "journal",
        "copy a journal, look after one in PostgreSQL",
        CliCommand(
            "copy",
            "copy all sessions, and compare what was written",
            f"{_CLI}.stored.journal_copy:copy_journal",
            argument("source", "FROM", complete=files),
            argument("target", "TO", complete=files),
        ),
        CliCommand(
            "restored",
            "after a restore: let no old claim count, check all records",
            f"{_CLI}.stored.journal_upkeep:restored_journal",
            argument("url", "URL"),
        ),
        CliCommand(
            "vacuum",
            "write the tables anew, without what was deleted",
            f"{_CLI}.stored.journal_upkeep:vacuum_journal",
            argument("url", "URL"),
        ),
        about="""\
Look after a whole journal. None of its sessions is run.

FROM and TO are each a file with a journal, the URL of one in PostgreSQL, or an
export file. FROM is only read. At TO nothing is overwritten: what is there is
compared, and what is missing is added. Each command may be repeated if it was
cut. `restored` is for the time after a restore from a backup, before anybody
uses the journal; while `vacuum` runs, whoever uses it waits.""",
        example="""\
exit status: 0 all well, 1 not all is copied or undamaged, 2 usage
example: agentrail journal copy ./sessions.db postgresql://host/agentrail""",
    ),
    CliCommand(
        "console",
        "look at stored sessions in a browser",
        f"{_CLI}.stored.console_page:main",
        argument("journal", "[FILE]", journal_address, complete=files),
        text_option("--port", "N", "the port; 0: any (default: 8766)", WholeNumber(0, 65_535), default=PORT + 1),
        path_option("--evals", "FOLDER", "show the results of `evals run` there", existing_folder),
        lasts=True,
        about="""\
Open the console on a journal: a page that shows what its sessions did, and why.
The code of their agents is not needed, nothing is run, and nothing is written:
another process may use the journal meanwhile.

  FILE   the journal (default: the one of the user)""",
        example="example: agentrail console ./sessions.db",
    ),
)

_LOOKING: Final = (
    CliCommand(
        "tools",
        "list the tools of an agent",
        f"{_CLI}.reports.tool_list:main",
        AGENT,
        FOLDER,
        *MODES,
        json_option(),
        text_option("--tool", "NAME", "show all of this tool, with the schema of its arguments"),
        about="""\
List the tools of an agent: the one of the command line, or that of a file.
Nothing is run, and no server is asked for its tools.

  EFFECT  what a call that ran does if it runs again: nothing (pure), the same
          (idempotent), it can tell (checkable), nobody knows (unsafe)
  ASKS    whether `HumanApproval` asks a person before a call runs""",
        example="""\
example: agentrail tools --plan
         agentrail tools app.py:desk --tool shell""",
    ),
    CliCommand(
        "plugins",
        "list the plugins of an agent, and their order",
        f"{_CLI}.reports.plugin_list:main",
        AGENT,
        FOLDER,
        *MODES,
        json_option(),
        text_option(
            "--examples",
            "N",
            "random scripts for each two of them (default: 600; 0: none)",
            WholeNumber(0),
            default=600,
        ),
        about="""\
List the plugins of an agent, the one of the command line or that of a file, in
the order in which they are asked: their hooks, their options, and for which two
of them that order matters. No model is asked, and no session is started.""",
        example="""\
example: agentrail plugins app.py:desk
         agentrail plugins app.py:desk --examples 5000""",
    ),
    CliCommand(
        "models",
        "list providers, keys, models, their prices",
        f"{_CLI}.reports.model_list:main",
        argument("name", "[NAME]"),
        json_option(),
        about="""\
List the providers: whether their keys are in the environment, which model is
the usual one, its context window, and its price if the extra `prices` is
installed; and which model `chat` and `run` choose now. Nothing is sent.

  NAME   a model, such as openai:gpt-5.4, or a provider: all its known models""",
        example="example: agentrail models anthropic",
    ),
    CliCommand(
        "new",
        "write a folder to begin an agent, plugin, tool, host",
        f"{_CLI}.authoring.new:main",
        argument("kind", "KIND", OneOf(("agent", "plugin", "tool", "host"), "nothing is made for")),
        argument("folder", "FOLDER", utf8_text, complete=folders),
        about="""\
Write a folder to begin with: code, its test, which passes, and a project for
both. Nothing that is there is overwritten.

  agent FOLDER    an agent with a tool and a limit
  plugin FOLDER   a plugin with options and a state
  tool FOLDER     a tool, and an agent that has it
  host FOLDER     a host that serves an agent over HTTP""",
        example="example: agentrail new agent teahouse",
    ),
    CliCommand(
        "doctor",
        "look at what agents need on this machine",
        f"{_CLI}.reports.doctor:main",
        journal_option(metavar="FILE|URL"),
        text_option("--key", "VARIABLE", "the hosts' key (default: AGENTRAIL_CLUSTER_KEY)"),
        FOLDER,
        flag_option("--config", "has_config", "print the settings of the folder instead, with sources"),
        json_option(),
        about="""\
Look at what agents need on this machine: Python, SQLite, the journal, the
sandbox, API keys, room on the disk, the clock; and the hosts of a journal on
PostgreSQL. Nothing is changed.""",
        example="""\
exit status: 0 if agents can run, 1 if something has to be done, 2 usage
example: agentrail doctor --journal ./sessions.db""",
    ),
    CliCommand(
        "trust",
        "allow what agentrail.toml of a folder wants",
        f"{_CLI}.trust.trust_command:main",
        argument("folder", "[FOLDER]", complete=folders),
        *one_of("answer", {"yes": "allow it without a question", "forget": "allow nothing of this folder any more"}),
        about="""\
Show what `agentrail.toml` of a folder wants to run, to loosen, or to read
outside of it, and its own commands, and allow it after a question. What is
allowed is kept for this user, with its exact content: if that changes, you are
asked again.""",
        example="""\
exit status: 0 if all is allowed, 1 if not, 2 usage
example: agentrail trust ~/project""",
    ),
    CommandGroup(
        "mcp",
        "sign in at MCP servers, and out; be one",
        CliCommand(
            "login",
            "sign in at a server",
            f"{_CLI}.trust.mcp_sign_ins:login",
            argument("server", "SERVER"),
            text_option("--account", "NAME", "whose tokens they are", default=""),
            text_option("--issuer", "URL", "the authorization server, if it is on another host", default=""),
            FOLDER,
        ),
        CliCommand("list", "where this user is signed in", f"{_CLI}.trust.mcp_sign_ins:list_sign_ins"),
        CliCommand(
            "logout",
            "delete the tokens of a server",
            f"{_CLI}.trust.mcp_sign_ins:logout",
            argument("server", "SERVER"),
            text_option("--account", "NAME", "whose tokens they are", default=""),
            FOLDER,
        ),
        CliCommand(
            "serve",
            "be an MCP server, whose tool is an agent",
            f"{_CLI}.mcp_serving.serve_command:main",
            AGENT,
            MODEL,
            KEPT_JOURNAL,
            NO_CONFIG,
            *MODES,
            SANDBOX,
            FOLDER,
            lasts=True,
            about="""\
Have an MCP client talk to an agent: it starts this command, and gets one tool,
`prompt`. What waits for a person, it asks in the client.""",
        ),
        about="""\
Sign in at an MCP server once: sessions use and renew the tokens from then on.
The page to sign in is printed, and not opened. Tokens are kept for this user.

  SERVER  its name in the settings of the folder, or its URL""",
        example="""\
example: agentrail mcp login tickets
         agentrail mcp logout https://tickets.example/mcp""",
    ),
    CliCommand(
        "check",
        "check the plugins of a file",
        f"{_CLI}.authoring.check:main",
        click.Argument(
            ["files"], metavar="FILE ...", nargs=-1, required=True, type=existing_file, shell_complete=files
        ),
        text_option("--seed", "N", "another one is another search (default: 0)", click.INT, default=0),
        text_option(
            "--examples",
            "N",
            "combinations of plugins that are tried, each against all invariants (default: 10000)",
            WholeNumber(1),
            default=10_000,
        ),
        text_option(
            "--time",
            "SECONDS",
            "after how long no more is tried, but for the laws (default: 300)",
            Number(min=0),
            default=300.0,
        ),
        flag_option(
            "--orders-may-differ",
            "orders_may_differ",
            "only report for which two plugins the order matters, instead of counting it as a finding",
        ),
        about="""\
Check the plugins that a Python file defines or makes: each against the laws,
all together against the invariants of sessions and against the functions in the
file whose one parameter is a `Trace`.""",
        example="example: agentrail check my_plugins.py --time 60",
    ),
)


_FAIL_IF: Final = text_option(
    "--fail-if", "worse", "exit with 1 if a scorer is worse", OneOf(("worse",), "nothing fails if it is")
)
_JUNIT: Final = path_option("--junit", "FILE", "write a report for what shows tests", filled_path)
_MARKDOWN: Final = path_option("--markdown", "FILE", "write a report for people", filled_path)

_EVALUATING: Final = (
    CliCommand(
        "backtest",
        "try other plugins on sessions that happened",
        f"{_CLI}.evaluating.backtest_sessions:main",
        argument("sessions", "FILE|URL", complete=files),
        path_option("--plugins", "FILE[:NAME]", "plugins, or a SessionSpec with them", agent_named),
        path_option("--options", "FILE|JSON", "other options, by plugin", str),
        Option(["--session"], metavar="ID", multiple=True, type=utf8_text, help="this session; may come again"),
        flag_option("--beyond", "beyond", "go on behind a first difference, and guess"),
        text_option("--at-once", "N", "in how many processes (default: by cores)", WholeNumber(1)),
        json_option(),
        path_option(
            "--save-tests",
            "FOLDER",
            "write a test of each first difference",
            filled_path,
            "save_tests",
            complete=folders,
        ),
        about="""\
Ask other plugins what those of stored sessions were asked, and tell where they
rule otherwise: exactly, up to the first such ruling of each. Nothing is run.

  FILE|URL   the journal, or a file with exported sessions""",
        example="""\
exit status: 0 none differs, 1 some do or all are left out, 2 usage,
             130 interrupted
example: agentrail backtest ./sessions.db --plugins guards.py
         agentrail backtest ./sessions.db \\
           --options '{"BudgetGuard": {"max_rounds": 5}}'""",
    ),
    CommandGroup(
        "evals",
        "run cases, compare results, add cases",
        CliCommand(
            "run",
            "run cases several times each, and score them",
            f"{_CLI}.evaluating.run_cases:main",
            argument("cases", "CASES", existing_file, complete=files),
            Option(
                ["--agent"],
                metavar="FILE[:NAME]",
                type=agent_named,
                required=True,
                shell_complete=files,
                help="a file with a SessionSpec; its scorers score, too",
            ),
            text_option("--model", "NAME", "which model (default: that of the agent)"),
            Option(
                ["--score"],
                metavar="NAME",
                multiple=True,
                type=OneOf(("exact", "contains", "matches", "calls"), "there is no scorer"),
                help="exact, contains, matches or calls; may come again",
            ),
            text_option("--repeats", "N", "how often each case runs (default: 5)", WholeNumber(1), default=5),
            text_option("--at-once", "N", "how many run at the same time (default: 8)", WholeNumber(1), default=8),
            text_option("--max-usd", "X", "begin no run once so much is spent", Number(min=0, min_open=True)),
            path_option("--baseline", "FILE", "compare with these results", existing_file),
            _FAIL_IF,
            path_option("--to", "FILE", "the results (default: CASES with .results.json)", filled_path),
            flag_option("--resume", "resume", "go on with the results in that file"),
            path_option("--journal", "FILE", "keep the sessions there (default: nowhere)", journal_file),
            _JUNIT,
            _MARKDOWN,
            about="""\
Run the cases of a file with an agent, each several times, and score the runs.
Ctrl-C ends it: what is done is kept, and --resume goes on.""",
            example="""\
exit status: 0 done, 1 failed or worse, 2 usage, 5 limit, 130 interrupted
example: agentrail evals run cases.jsonl --agent app.py --baseline main.json""",
        ),
        CliCommand(
            "compare",
            "say whether results are better or worse",
            f"{_CLI}.evaluating.compare_results:main",
            argument("baseline", "BASELINE", existing_file, complete=files),
            argument("results", "RESULTS", existing_file, complete=files),
            _FAIL_IF,
            _JUNIT,
            _MARKDOWN,
            example="example: agentrail evals compare main.json cases.results.json",
        ),
        CliCommand(
            "add",
            "make a case of a turn of a stored session",
            f"{_CLI}.evaluating.add_case:main",
            SESSION,
            argument("turn", "TURN", WholeNumber(1)),
            Option(["--to"], metavar="FILE", type=filled_path, required=True, shell_complete=files, help="the cases"),
            text_option("--name", "NAME", "what the case is called (default: words of its prompt)", dest="case_name"),
            journal_option(metavar="FILE|URL"),
            about="""\
Make a case of a turn as it happened, and add it to a file of cases. An export
of the session is written beside it: the case begins with what was said before.""",
            example="example: agentrail evals add trip 7 --to cases.jsonl",
        ),
        example="example: agentrail evals run cases.jsonl --agent app.py",
    ),
)


_STORE: Final = text_option(
    "--store", "FILE", "the store (default: knowledge.sqlite, here)", filled_path, default="knowledge.sqlite"
)
_EMBEDDER: Final = text_option("--embedder", "NAME", "search by meaning, too, such as openai:text-embedding-3-small")

_KNOWLEDGE: Final = (
    CommandGroup(
        "knowledge",
        "add, search and list documents to cite",
        CliCommand(
            "add",
            "add files, and those in folders",
            f"{_CLI}.documents.add_documents:main",
            click.Argument(["files"], metavar="FILE ...", type=Path, nargs=-1, required=True, shell_complete=files),
            _STORE,
            _EMBEDDER,
            about="""\
Add documents to a store, whose passages a model finds and cites: Markdown and
plain text. A file that is there already takes no time, unless it has changed.""",
            example="""\
exit status: 0 done, 1 some were left out, 2 usage
example: agentrail knowledge add handbook/ --store handbook.sqlite""",
        ),
        CliCommand(
            "search",
            "print the passages that fit a query",
            f"{_CLI}.documents.search_documents:main",
            click.Argument(["query"], metavar="QUERY ...", type=utf8_text, nargs=-1, required=True),
            _STORE,
            _EMBEDDER,
            text_option("--limit", "N", "the most passages (default: 5)", WholeNumber(1, 50), default=5),
            json_option("each a passage"),
            about="""\
Print what is found, without a model: each passage with its citation, and with
its place in the document.""",
            example="""\
exit status: 0 found, 1 nothing, 2 usage
example: agentrail knowledge search "how many days of leave" --store handbook.sqlite""",
        ),
        CliCommand(
            "list",
            "print the documents",
            f"{_CLI}.documents.list_documents:main",
            _STORE,
            json_option("each a document"),
            example="example: agentrail knowledge list --store handbook.sqlite",
        ),
        CliCommand(
            "remove",
            "remove documents, and leave nothing of them",
            f"{_CLI}.documents.remove_documents:main",
            click.Argument(["names"], metavar="NAME ...", type=utf8_text, nargs=-1, required=True),
            _STORE,
            example="example: agentrail knowledge remove handbook/leave.md --store handbook.sqlite",
        ),
        CliCommand(
            "rebuild",
            "make the store anew, as for another embedder",
            f"{_CLI}.documents.rebuild_store:main",
            _STORE,
            _EMBEDDER,
            example="example: agentrail knowledge rebuild --embedder openai:text-embedding-3-small",
        ),
        example="example: agentrail knowledge search leave --store handbook.sqlite",
    ),
)


def _many(name: str, about: str) -> Option:
    return Option([f"--{name}", f"{name}s"], metavar=name.upper(), type=utf8_text, help=about, multiple=True)


_SERVING: Final = (
    HostCliCommand(
        "serve",
        "serve agents over HTTP",
        f"{_CLI}.host.serve:main",
        AGENT,
        text_option("--host", "HOST", "the address (default: 127.0.0.1)", filled_text),
        text_option("--port", "PORT", f"the port; 0: any (default: {PORT})", WholeNumber(0)),
        path_option("--unix", "PATH", "a unix socket, in place of a port", filled_path),
        text_option("--descriptor", "N", "a socket that listens, in place of a port", WholeNumber(0)),
        Option(
            ["--tls"],
            metavar="CERT KEY",
            nargs=2,
            type=Path,
            help="a certificate, and its key: PEM",
        ),
        journal_option("a file, or postgresql://… (default: in memory)", "PLACE"),
        Option(["--cores"], metavar="N", default="1", type=cores_named, help="as many processes as one host; or `all`"),
        text_option("--ray", "ADDRESS", "the processes are shards of Ray; or `auto`", filled_text),
        Option(["--replace"], is_flag=True, hidden=True),
        path_option("--keys", "PATH", "a file of keys (default: a token for this machine)"),
        flag_option("--reload", "reload", "start anew when a Python file changes"),
        Option(["--token"], metavar="TEXT", type=token_named, help="that token (default: one for each folder)"),
        Option(["--server"], metavar="NAME", type=OneOf(("uvicorn",), "there is no server"), hidden=True),
        text_option("--log-form", "FORM", "text or json", OneOf(("text", "json"), "there is no form"), default="text"),
        Option(["--fewer-collections/--no-fewer-collections"], default=True, hidden=True),
        Option(["--sandbox"], metavar="ENGINE:IMAGE", type=sandbox_option, hidden=True),  # as `--evals`
        flag_option("--otel", "otel", "export spans and metrics by OTLP: see OTEL_*"),
        Option(
            ["--evals"], metavar="FOLDER", type=existing_folder, hidden=True
        ),  # the guide has it: a help is a screen
        _many("name", "a name of the host; this and the next may come again"),
        _many("origin", "another site whose pages use it: https://example.com"),
        Option(
            ["--proxy", "proxies"],
            metavar="PROXY",
            multiple=True,
            help="a proxy in front: an address, network or `unix`",
        ),
        _many("member", "a network of the cluster's other hosts: 10.0.0.0/8"),
        lasts=True,
        about="Serve what FILE has, else a demo agent. See also `serve keys` and `serve end`.",
        example="example: agentrail serve app.py --keys keys.txt --journal kept.db",
    ),
    CommandGroup(
        "serve keys",
        "make, list and withdraw keys of users",
        CliCommand(
            "make",
            "make a key, and print it: it is nowhere else",
            f"{_CLI}.host.serve_keys:make",
            argument("file", "FILE", complete=files),
            argument("tenant", "TENANT"),
            argument("user", "USER"),
            text_option(
                "--scopes",
                "SCOPES",
                "with commas between: talk, decide, observe, admin, operate (default: talk)",
                default="talk",
            ),
            about="""\
Make a key, and print it: it is nowhere else.

  FILE    the file of the keys
  TENANT  whose sessions the key can reach: a customer, a team
  USER    who has the key""",
        ),
        CliCommand(
            "list", "list the keys", f"{_CLI}.host.serve_keys:list_keys", argument("file", "FILE", complete=files)
        ),
        CliCommand(
            "withdraw",
            "take a key out of the file",
            f"{_CLI}.host.serve_keys:withdraw",
            argument("file", "FILE", complete=files),
            argument("key_id", "ID"),
        ),
        example="example: agentrail serve keys make keys.txt acme ann",
    ),
    CliCommand(
        "serve end",
        "park the sessions of all shards, and end them",
        f"{_CLI}.host.serve_end:main",
        Option(["--ray"], metavar="ADDRESS", required=True, type=filled_text, help="where Ray is; or `auto`"),
    ),
)

_COMPLETION: Final = CliCommand(
    "completion",
    "print a script that completes all this in a shell",
    f"{_CLI}.completion:main",
    argument("shell", "SHELL", OneOf(SHELLS, "there is no script for")),
    about="""\
Print a script that completes subcommands, options and files in a shell. It asks
the command itself, so it holds after an upgrade.

  bash   in ~/.bashrc, from 4.4 on:      eval "$(agentrail completion bash)"
  zsh    in ~/.zshrc, after `compinit`:  source <(agentrail completion zsh)
  fish   in ~/.config/fish/config.fish:  agentrail completion fish | source""",
    example='example: eval "$(agentrail completion bash)"',
)

PROGRAM: Final = CommandGroup(
    "agentrail",
    "agents that are supervised",
    *(*_TALKING, *_STORED, *_EVALUATING, *_KNOWLEDGE, *_LOOKING, *_SERVING, _COMPLETION),
    *(view.hidden_alias() for view in _VIEWS),  # their names before they were views of `sessions`; gone after 0.1
    default="chat",
    params=(
        flag_option("--version", "version", "print the version"),
        flag_option("--debug", "debug", "print an error with its traceback"),
    ),
    usage="[--version] [--help] [--debug] [SUBCOMMAND] [OPTION ...]",
    example="""\
Without a subcommand: chat. `agentrail SUBCOMMAND --help` lists its options.
With --debug before it, an error is printed with its traceback.""",
)
"""The whole command line."""

SUBCOMMANDS: Final = tuple(
    command
    for name, command in PROGRAM.commands.items()
    if " " not in name and not command.hidden and isinstance(command, CliCommand | CommandGroup)
)
"""The subcommands, in their order, without the hidden ones."""
