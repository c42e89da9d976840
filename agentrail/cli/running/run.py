"""`agentrail run`: one prompt, for scripts. The answer alone is what it prints, and the outcome is its exit status."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TextIO, TypeAlias, cast

from agentrail.adapters.python_file import NothingUsableError, find_member
from agentrail.api.protocols import AnySession, awaited
from agentrail.api.sse_frames import as_seen
from agentrail.api.transcript import Change, ResponseEnded, Transcript, Voided
from agentrail.api.views import to_json
from agentrail.app import process
from agentrail.app.named_sandbox import in_container
from agentrail.app.spec import SessionSpec
from agentrail.app.supervisor import open_supervisor
from agentrail.cli.agents.run_limits import LIMIT, limited
from agentrail.cli.command_options import NamedAgent, options_of
from agentrail.cli.exit_codes import KEPT_STOP_WITHIN, STOP_WITHIN
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import tell, tell_more
from agentrail.cli.output.screen import ScreenText, Tone, clean, clipped, line, one_line
from agentrail.cli.output.standard_output import StandardOutput, open_what_is_closed
from agentrail.cli.running.deciders import LineDecider, approve_all, decide_nothing, refuse_all
from agentrail.cli.running.prompt_run import INTERRUPTED, Decide, PromptRun
from agentrail.cli.running.run_options import RunOptions, schema_of
from agentrail.cli.running.run_outcome import Outcome, RunEnding, RunTally, ending_of_error, held_ending, run_view
from agentrail.cli.settings.default_agent import DEMO, MODES, spec_for
from agentrail.cli.settings.project_settings import ProjectSettings
from agentrail.cli.settings.setting_order import chosen_mode, chosen_model, chosen_sandbox
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.prompt_input import MOST_BYTES, STDIN, prompt_of
from agentrail.cli.talk.rendering import SHORT, pieces_of
from agentrail.cli.talk.terminal import Terminal
from agentrail.cli.trust.allowed_code import guarded_agent
from agentrail.cli.trust.settings_code import supervisor_options, with_settings
from agentrail.cli.trust.trust_store import settings_of
from agentrail.codec.json_text import to_text
from agentrail.errors import AgentrailError, PluginRefused, SupervisorStuck
from agentrail.ports.model import ModelChain
from agentrail.values import events as e
from agentrail.values.json import JsonObject
from agentrail.values.usage import NOTHING_USED, Usage

PATIENCE: Final = 3.0
"""Seconds after which somebody is told that standard input is waited for."""

BEGINNING: Final = 0
"""The cursor before all events of a session."""

NO_KEY: Final = "no key of a provider is in the environment, so the built-in demo model answers; --model names another"
NOT_SENT: Final = "the prompt was not sent, as it would end the turn of that call"
FIRST: Final = "decide about it first, by `agentrail chat --resume`"

TITLE: Final = 60
"""The most columns of the title that a session gets from its prompt."""

SHOWN_OTHERWISE: Final = (
    *(e.AgentAbort, e.AgentEnd, e.MessageDelta, e.PromptReceived, e.PromptRejected, e.StreamError, e.ThinkingDelta),
    *(ResponseEnded, Voided),
)
"""Changes that are no progress: they bring the answer, or the reason why there is none."""


def main(form: str | None, **words: object) -> int:
    """Answer one prompt with the arguments *words* of `RunOptions`, and return the exit status."""
    logging.getLogger("agentrail").addHandler(logging.NullHandler())
    open_what_is_closed()
    output = StandardOutput(sys.stdout)
    try:
        options = options_of(RunOptions, {"form": form, **words})
    except BadInputError as error:
        return _reported_at_once(RunEnding(Outcome.USAGE, str(error)), output, as_json=form is not None)
    with output.alone():
        try:
            return _answered(options, output)
        except KeyboardInterrupt:  # a signal before Trio's handler is installed, or after it is removed
            return _reported_at_once(INTERRUPTED, output, as_json=options.as_json)


def report_usage(problem: str) -> int:
    """Tell the *problem* with a command line that asks for JSON, as JSON too, and return the exit status."""
    open_what_is_closed()
    return _reported_at_once(RunEnding(Outcome.USAGE, problem), StandardOutput(sys.stdout), as_json=True)


def _answered(options: RunOptions, output: StandardOutput) -> int:
    as_json = options.as_json
    try:
        schema = None if options.schema is None else schema_of(options.schema)
        open_session, model = _host_session(options) if options.is_kept else _own_session(options)
        prompt = prompt_of(options.prompt, _piped(options))
    except (BadInputError, OSError) as error:
        return _reported_at_once(RunEnding(Outcome.USAGE, str(error)), output, as_json=as_json)
    except AgentrailError as error:
        tell_more(error)
        return _reported_at_once(ending_of_error(error, RunTally()), output, as_json=as_json)
    if options.model is None and not options.agent and model == DEMO and options.progress != "quiet":
        tell(f"agentrail: {NO_KEY}")
    terminal = Terminal(sys.stdin or _nowhere("r"), sys.stderr or _nowhere("w"))
    run = ScriptedRun(options, schema, output, terminal)
    stop_within = KEPT_STOP_WITHIN if options.is_kept else STOP_WITHIN
    ending = process.run(partial(run.answer, open_session, prompt), stop_within=stop_within) or run.ending
    if ending is None:  # a signal came before the session was started
        return _reported_at_once(INTERRUPTED, output, as_json=as_json)
    return ending.outcome.value


def _nowhere(mode: str) -> TextIO:
    """Return a stream to nowhere, in place of a standard stream that is closed."""
    return cast("TextIO", Path(os.devnull).open(mode, encoding="utf-8"))


def _reported_at_once(ending: RunEnding, output: StandardOutput, *, as_json: bool) -> int:
    """Report the *ending* of a run that started no session; return the exit status."""
    tell(f"agentrail: {ending.problem}")
    if as_json:
        output.put(to_json(run_view(ending, RunTally(), "")) + b"\n")
    return ending.outcome.value


# The session


OpenSession: TypeAlias = Callable[[str], AbstractAsyncContextManager[AnySession]]
"""Opens the session of a run; the argument is a title for a new one."""


def _own_session(options: RunOptions) -> tuple[OpenSession, ModelChain]:
    """Return how to open a session that ends with the run, and its model."""
    folder = (options.folder or Path()).resolve()
    settings = settings_of(folder) if options.has_config and not options.agent else None
    spec, others = _spec_of(options, folder, settings), supervisor_options(settings)

    @asynccontextmanager
    async def open_alone(_title: str) -> AsyncGenerator[AnySession, None]:
        async with open_supervisor(stop_within=STOP_WITHIN, **others) as supervisor:
            yield await supervisor.spawn(spec)

    return open_alone, spec.model


def _host_session(options: RunOptions) -> tuple[OpenSession, ModelChain]:
    """Return how to open a session that outlives the run, and the model of a new one."""
    from agentrail.cli.running.kept_run import KeptRun  # noqa: PLC0415 - it needs a host, and other runs start without

    run = KeptRun(options)
    return run.session, "" if options.resume else run.source.model


# What goes in


def _piped(options: RunOptions) -> bytes | None:
    """Return the content of standard input if it is the prompt or its context; else `None`."""
    stream = sys.stdin
    if stream is None or options.decision == "answers" or (stream.isatty() and options.prompt != STDIN):
        return None
    descriptor = stream.fileno()
    if options.progress != "quiet" and not stream.isatty():
        _tell_if_it_waits(descriptor)
    try:
        return _read_all(descriptor)
    except OSError as error:
        problem = f"standard input cannot be read: {error.strerror}"
        raise BadInputError(f"{problem}; `< /dev/null` gives none") from None


def _read_all(descriptor: int) -> bytes:
    """Return the input, at most `MOST_BYTES + 1` bytes, so that the caller sees if it is too long."""
    content = bytearray()
    while len(content) <= MOST_BYTES:
        try:
            piece = os.read(descriptor, MOST_BYTES + 1 - len(content))
        except BlockingIOError:  # another process has made the shared descriptor non-blocking
            select.select([descriptor], [], [])
            continue
        if not piece:
            break
        content += piece
    return bytes(content)


def _tell_if_it_waits(descriptor: int) -> None:
    """Tell the person that the program waits for standard input if nothing comes soon: it may have no end."""
    with suppress(OSError, ValueError):  # some inputs, such as files on Windows, do not support `select`
        if not select.select([descriptor], [], [], PATIENCE)[0]:
            tell("agentrail: waiting for standard input; `< /dev/null` gives none")


def _spec_of(options: RunOptions, folder: Path, settings: ProjectSettings | None) -> SessionSpec:
    if options.agent is not None:
        spec = _spec_in_file(options.agent)
        spec = spec if options.model is None else spec.but(model=options.model)
        spec = spec if options.folder is None else spec.but(working_dir=str(options.folder.resolve()))
        spec = in_container(spec, chosen_sandbox(options.sandbox, None))
        spec = guarded_agent(spec, options.agent.file.resolve())
    else:
        model, mode = chosen_model(options.model, settings), chosen_mode(None, settings)
        sandbox = chosen_sandbox(options.sandbox, settings)
        spec = spec_for(model, folder, mode or MODES[0], sandbox)
        spec = spec if settings is None else with_settings(spec, settings, sandbox)
    return limited(spec, options.max_usd, options.max_rounds, options.max_seconds)


def _spec_in_file(agent: NamedAgent) -> SessionSpec:
    try:
        return cast("SessionSpec", find_member(agent.file, agent.name, (SessionSpec,)).value)
    except NothingUsableError as error:
        raise BadInputError(f"--agent {agent.file}: {error}") from None


# What comes out


class ScriptedRun:
    """Runs one prompt, and reports its progress, its events and its ending."""

    def __init__(
        self, options: RunOptions, schema: JsonObject | None, output: StandardOutput, terminal: Terminal
    ) -> None:
        self.ending: RunEnding | None = None
        """How the run ended, once that is reported."""
        self._options = options
        self._schema = schema
        self._output = output
        self._terminal = terminal
        # A session that is resumed, and the agent of a file, may work in another folder
        is_elsewhere = options.agent is not None or options.resume is not None
        self._changes = FileChanges(None if is_elsewhere else (options.folder or Path()).resolve())
        self._transcript = Transcript()
        # What the person wrote without what came by a pipe; empty if the prompt came by one
        self._words = options.prompt or "" if options.prompt != STDIN else ""
        self._is_seen = sys.stderr is not None and sys.stderr.isatty()
        self._shows_progress = self._is_seen if options.progress is None else options.progress == "verbose"
        # This command reads no typed lines while progress is shown
        if self._is_seen and os.environ.get("TERM", "dumb") != "dumb":
            terminal.look = terminal.look.but(rewrites=True)

    async def answer(self, open_session: OpenSession, prompt: str) -> RunEnding:
        """Open the session, send *prompt*, report the ending of the run, and return the ending."""
        is_new = self._options.resume is None
        try:
            async with open_session(clipped(one_line(self._words or prompt), TITLE)) as session:
                if not is_new and (calls := (await awaited(session.status())).held):
                    return await self._report(held_ending(calls, NOT_SENT, FIRST), RunTally(), session.id)
                run = PromptRun(session, self._decider(session), self._show)
                earlier_usage = NOTHING_USED if is_new else await run.usage()
                self._tell_name(session)
                ending = await run.run(prompt, self._schema, BEGINNING if is_new else None)
                usage = (await run.usage()).minus(earlier_usage)
                return await self._report(ending, run.tally, session.id, usage)
        except BadInputError as error:
            return await self._report(RunEnding(Outcome.USAGE, str(error)), RunTally())
        except SupervisorStuck as error:
            self._tell(str(error))
            raise
        except AgentrailError as error:
            is_ours = isinstance(error, PluginRefused) and error.plugin == LIMIT
            tell_more(error)
            ending = RunEnding(Outcome.USAGE, f"--max-usd: {error}") if is_ours else ending_of_error(error, RunTally())
            return await self._report(ending, RunTally())

    def _tell_name(self, session: AnySession) -> None:
        """Say how others find a session that is kept, before it does anything."""
        if self._options.is_kept and self._shows_progress:
            from agentrail.cli.session_names import resume_command  # noqa: PLC0415 - imports journals

            name = session.id.rpartition(".")[2]
            self._terminal.show(
                (line(f"  session {name}: {resume_command(name, self._options.journal)} shows it", Tone.DIM),)
            )

    def _decider(self, session: AnySession) -> Decide:
        match self._options.decision:
            case "yes":
                return partial(approve_all, session)
            case "deny":
                return partial(refuse_all, session)
            case "answers":
                return partial(LineDecider(self._terminal, self._changes), session)
            case _ if self._terminal.by_hand and self._is_seen:
                return partial(LineDecider(self._terminal, self._changes), session)
            case _:
                return partial(decide_nothing, session)

    async def _show(self, envelope: e.Envelope) -> bool:
        if self._shows_progress:
            for change in self._transcript.take(envelope):
                self._terminal.show(progress_of(change))
        if self._options.form == "events":
            return await self._output.write(to_json(as_seen(envelope)) + b"\n")
        return True

    async def _report(
        self, ending: RunEnding, tally: RunTally, session: str = "", usage: Usage = NOTHING_USED
    ) -> RunEnding:
        self._terminal.end_line()
        if self._options.form is None:
            content = self._text_of(ending).encode(errors="replace")
        else:
            content = to_json(run_view(ending, tally, session, usage)) + b"\n"
        if content:
            await self._output.write(content)
        if not self._output.is_open and (content or not ending.problem):
            ending = RunEnding(Outcome.FAILED, self._output.problem)
        self.ending = ending
        if ending.problem:
            self._tell(ending.problem)
        return ending

    def _text_of(self, ending: RunEnding) -> str:
        """Return the answer with an end of line; empty if the run has no answer."""
        text = ending.text if ending.answer is None else to_text(ending.answer)
        if self._output.is_terminal:
            text = clean(text)
        return text if not text or text.endswith("\n") else f"{text}\n"

    def _tell(self, problem: str) -> None:
        self._terminal.show((line(f"agentrail: {' '.join(problem.splitlines())}", Tone.BAD),))


def progress_of(change: Change) -> tuple[ScreenText, ...]:
    """Return the pieces of text that show a change as progress; empty for what is not shown."""
    if isinstance(change, ResponseEnded) and change.message.calls and change.message.text:
        return (line(f"  {clipped(one_line(change.message.text), SHORT)}", Tone.DIM),)
    return () if isinstance(change, SHOWN_OTHERWISE) else pieces_of(change)
