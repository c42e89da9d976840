"""`ConsoleCommands`: what a person may type that begins with a slash, from one table."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from agentrail.adapters.user_folders import with_home
from agentrail.api.protocols import AnySession, awaited
from agentrail.api.views import DetailView
from agentrail.cli.agents.agent_paths import hidden_from
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.host.holder_file import HolderFile
from agentrail.cli.host.page_browser import open_in_browser
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import Tone, aside, clipped, date_and_time, escaped, one_line
from agentrail.cli.session_names import OWN, new_name
from agentrail.cli.settings.default_agent import ASK_FIRST, OF_SERVERS, Mode, mode_named
from agentrail.cli.stored.session_rows import session_rows
from agentrail.cli.talk.context_rows import context_rows
from agentrail.cli.talk.file_names import without_files
from agentrail.cli.talk.files_back import REWINDS, ROWS, WHAT, Rewind, files_named, rewind_named, rows_of
from agentrail.cli.talk.key_commands import AT_REST_ALONE, NEXT, STOP
from agentrail.cli.talk.meant_models import meant_models, missing_key, models_like
from agentrail.cli.talk.memory_lines import add_to_memory, memory_paths
from agentrail.cli.talk.named_files import (
    AT,
    NamedFile,
    files_in,
    like_file,
    missing_in,
    paths_behind,
    picture_paths,
    with_parts,
)
from agentrail.cli.talk.rendering import SHORT, described, first_lines
from agentrail.cli.talk.server_prompts import ServerPrompts
from agentrail.cli.talk.shell_lines import ShellLines
from agentrail.cli.talk.skill_list import offered_skills, skill_rows, skills_of
from agentrail.cli.talk.taken_prompts import TakenPrompt, left_behind, preview, taken_prompts
from agentrail.cli.trust.own_commands import OwnCommand, command_rows
from agentrail.core.vocabulary.commands import When
from agentrail.errors import AgentrailError, SteeringQueueFull, UnknownRequest, UsageError
from agentrail.errors.agentrail_error import advice, listed
from agentrail.hooks.ruling import MEMORY
from agentrail.insight.event_sentences import decision_in
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.ports.journal import StoredSession
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.clock import Clock
from agentrail.tools.skills.folder_scan import is_outside
from agentrail.values.content import Part, Text, text_of
from agentrail.values.events import Event
from agentrail.values.messages import AssistantMessage, Message, UserMessage
from agentrail.values.rewinds import RewindPreview
from agentrail.values.tools import StandingApproval
from agentrail.values.usage import cost_text

if TYPE_CHECKING:  # the client of a host is imported when keys are read already; an editor has no terminal
    from agentrail.cli.talk.terminal import Terminal
    from agentrail.remote.remote_supervisor import RemoteSupervisor

STEER: Final = "/steer"
"""The only command that does not wait for the session to rest when it comes from a pipe or a file."""

MOST_FOLDED: Final = 20
"""The most results and thoughts that are kept to be shown in whole, the last ones."""

MOST_PRINTED: Final = 20
"""The most rows that are shown of what a command line of the person prints."""

MEMORY_WITHIN: Final = 2.0
"""Seconds for which the memory files are waited for: the host reads all records of the session for them."""

DECISION_WIDTH: Final = 160
"""The most columns of a decision that `/why` shows."""

WHICH: Final = "Which session? Arrows or its number, then Enter; Escape goes back."

NO_TEXT: Final = "not sent, as steering is text alone; Alt-Enter sends it in a prompt for later"
"""What is told of a picture or a PDF that steering names."""

NO_MODEL: Final = ("not-registered", "model")
"""The beginning of the facts of the error that a model is not offered."""

NAME_IN_TEXT: Final = re.compile("`([^`]+)`")

WHICH_MEMORY: Final = "Which memory file gets this line? Arrows or its number, then Enter; Escape drops it."

WHICH_MODEL: Final = "Which one is meant? Arrows or its number, then Enter; Escape goes back."

WHICH_PROMPT: Final = "Go back before which prompt, in a copy? Arrows or its number, then Enter; Escape goes back."

WHICH_PERMISSION: Final = "Ask again about which? Arrows or its number, then Enter; Escape goes back."

HOW_TO_DISALLOW: Final = "  /permissions NUMBER takes one of them back"

HOW_TO_REWIND: Final = "/rewind NUMBER goes on before that prompt, in a copy; `files` or `both` behind it: files, too"

NOT_OF_COPIES: Final = (
    "/rewind: files come back to prompts of this session alone, and this one is a copy of that which took the prompt"
)

HOW_TO_RESUME: Final = "  /resume NUMBER goes on with one of them"

SHOW: Final = "show"

PAGE_ADVICE: Final = "Whoever has this address can do here what you can. Enter takes it away."

INDENT: Final = 2
"""The columns before each row of a list."""

MOST_BEGUN: Final = 3
"""The most commands that are named because they begin with what was typed."""

MOST_LISTED: Final = 20
"""The most sessions that are listed, the last used ones."""

INTRODUCTION: Final = """\
  While nothing runs, what you type is a prompt. While the agent works, it is steering: the agent
  reads it before it goes on, and tools that can be stopped are stopped for it. Lines from a pipe or
  a file wait until nothing runs, but for /steer: each is a prompt, or the answer to a question.

  ?                alone: what keys do where you are
  Escape           stop what runs; twice, where nothing runs: go back before a prompt
  Ctrl-C           the same; twice within two seconds: leave
  Ctrl-D           leave
  Alt-Enter        what you typed is a prompt for later, also while the agent works
  Tab              choose from the menu that opens at / and at @
  !COMMAND         run it in the folder; what it prints goes with what you say next
  #LINE            keep that line in a memory file (AGENTS.md) that you choose; a space before it: a prompt
  @FILE            send that file with the prompt: a text, a picture or a PDF
  Ctrl-V           the picture in the clipboard; one that you drop here, or name by its whole path,
                   is sent, too
  \\ and Enter      another line; what you paste is one text, whatever lines it has
  Ctrl-X Ctrl-E    your editor ($VISUAL, else $EDITOR) on what you have typed; nothing is sent by that

  The last row can be your own: `status_line` in settings.toml of your folder of agentrail."""

WRITE_AGENTS: Final = (
    "Write the file AGENTS.md in this folder, for agents that work here: what the project is, how it is built, tested "
    "and checked, where things are, and which conventions hold. Look at the files first. Be brief, and say only what "
    "you have seen. If the file is there already, improve it."
)
"""The prompt of `/init`."""

HEADINGS: Final[Mapping[type[Message], str]] = {UserMessage: "You", AssistantMessage: "The agent"}
"""Which messages `/export` writes, and below which heading."""

CHANGEABLE_MODES: Final[tuple[Mode, ...]] = ("ask", "edits", "yes")
"""The modes that differ by what is asked alone."""

MODE_LABEL: Final = "mode:"
"""How the label begins that tells the mode of a session, if it was changed."""


class ConsoleCommand(NamedTuple):
    """One command: a row of the table of commands."""

    name: str
    """What is typed."""
    argument: str
    """What follows it, in words; empty if nothing does."""
    purpose: str
    """What it does, as the help says it."""
    carry_out: Callable[[ConsoleCommands, str], Awaitable[None]]
    """The function that does it, which gets what follows the name."""


class ConsoleCommands:
    """The slash commands of a conversation; those about other sessions exist only if a supervisor is given."""

    def __init__(
        self,
        session: AnySession,
        terminal: Terminal,
        supervisor: RemoteSupervisor | None = None,
        label: str | None = None,
        folder: Path = Path(),
        find_page: Callable[[], HolderFile | None] = lambda: None,
        own_commands: Sequence[OwnCommand] = (),
    ) -> None:
        """Create it; list only sessions with *label* if it is given, and find files named in prompts in *folder*.

        *find_page* returns where the page of the supervisor is, and *own_commands* are the commands of the project.
        """
        self.has_refused = False
        """Whether something that the person wanted was not done."""
        self.is_leaving = False
        """Whether the person wants to leave this conversation."""
        self.next_id: str | None = None
        """The session to which they want to go from here; empty for a new one, `None` for none."""
        self.next_text = ""
        """What the person may change and send there."""
        self._session = session
        self._terminal = terminal
        self._supervisor = supervisor
        self._label = label
        self._folder = folder
        self._find_page = find_page
        self._own_commands = own_commands
        self._skills: Sequence[tuple[str, str]] = ()
        """The command and the description of each skill that the person may begin, as of the last `find_skills`."""
        self._looking = trio.Lock()
        """Held while skills are looked for."""
        self.server_prompts = ServerPrompts()
        """The prompts of MCP servers that the session has."""
        self._decisions: deque[str] = deque(maxlen=MOST_FOLDED)
        self.shell = ShellLines(folder, self._show_output)
        """The command lines that the person runs."""
        self._folded: deque[tuple[str, str]] = deque(maxlen=MOST_FOLDED)

    def fold(self, name: str, text: str) -> None:
        """Keep *text* for `/show`, because the screen shows only one row of it."""
        if text:
            self._folded.append((name, text))

    def note_decision(self, event: Event) -> None:
        """Keep a line about the decision in *event*, if there is one, for `/why`."""
        if (text := decision_in(event)) is not None:
            self._decisions.append(clipped(one_line(text), DECISION_WIDTH))

    def ways_to_go_on(self, typed: str) -> Mapping[str, str]:
        """Return the possible completions of *typed*, each with what it is for, which may be empty.

        They are those of a command, of its argument, or of the path of a file.
        """
        name, space, rest = typed.partition(" ")
        if typed.startswith("/") and not space:
            return _ends_of({f"{row}{' ' if argument else ''}": about for row, argument, about in self._table}, typed)
        if name in CHOICES:
            return _ends_of(dict.fromkeys(CHOICES[name](rest), ""), rest)
        word = typed.rpartition(" ")[2]
        return dict.fromkeys(paths_behind(word.removeprefix(AT), self._folder), "") if word.startswith(AT) else {}

    def own_prompt(self, text: str) -> str | None:
        """Return the prompt that a command *text* of the project, or of a server, sends; `None` if it is neither."""
        name, rest = _name_and_rest(text)
        own_prompt = next((command.prompt(rest) for command in self._own_commands if command.name == name), None)
        return self.server_prompts.words(text) if own_prompt is None else own_prompt

    async def find_skills(self) -> None:
        """Find the skills that are commands now; other commands keep their names."""
        async with self._looking:
            with suppress(AgentrailError, BadInputError, OSError):  # `/skills` tells of it
                detail = await self._detail()
                if detail is not None:
                    old_skills = {name for name, _ in self._skills}
                    others = {*(name for name, _, _ in self._table if name not in old_skills), *NAMES}
                    self._skills = tuple(offered_skills(await skills_of(detail.agent), others))

    async def is_skill(self, text: str) -> bool:
        """Whether *text* begins a skill, and is a prompt as it stands: the model reads the skill by its tool.

        It is looked for now, as by that tool: the person may have written it just before.
        """
        name, _ = _name_and_rest(text)
        if name in ALIASES or any(name == row.name for row in self._rows):
            return False
        await self.find_skills()
        return any(name == skill for skill, _ in self._skills)

    async def carry_out(self, text: str) -> None:
        """Carry out the command *text*."""
        name, rest = _name_and_rest(text)
        rows = {row.name: row for row in self._rows}
        row = rows.get(ALIASES.get(name, name))
        if row is None:
            self.refuse(f"there is no {name}; {command_advice(name, [other for other, _, _ in self._table])}")
        else:
            await row.carry_out(self, rest)

    @property
    def _rows(self) -> tuple[ConsoleCommand, ...]:
        """The commands that are available in this conversation."""
        return HERE if self._supervisor is None else COMMANDS

    @property
    def _table(self) -> Sequence[tuple[str, str, str]]:
        """The name of each command, what may follow it, and what it is for; those of the project are the last ones."""
        skills = [(name, "TEXT", about) for name, about in self._skills]
        prompts = [(name, "[ARGUMENTS]", purpose) for name, purpose in self.server_prompts.commands]
        rows = [(row.name, row.argument, row.purpose) for row in self._rows]
        return [*rows, *command_rows(self._own_commands), *skills, *prompts]

    def refuse(self, why: str) -> None:
        """Show the error *why*, and note that something was not done."""
        self.has_refused = True
        self._terminal.show((aside(f"✗ {why}", Tone.BAD),))

    async def with_files(self, text: str, typed: str) -> str | tuple[Part, ...]:
        """Return the prompt *text* as a message with the files that *typed* names; tell of each how large it is.

        A command of the project, which is *text* then, names none: it may be a stranger's.
        """
        return self.shell.added_to(with_parts(text, await self._files_in(typed, is_steering=False)))

    async def _files_in(self, typed: str, *, is_steering: bool) -> Sequence[NamedFile]:
        """Return the files that *typed* names, and tell of each how large it is; steering has text alone."""
        names_files = AT in typed or picture_paths(typed)
        detail = await self._detail() if names_files else None
        hidden = BLOCKED_PATHS if detail is None else await hidden_from(detail.agent)
        files = await files_in(typed, self._folder, hidden, self._terminal.pictures)
        if is_steering:
            files = [_as_steered(file) for file in files]
        rows = [f"@{file.name}{':' if file.part is None else ''} {file.extent}" for file in files]
        for name in await trio.to_thread.run_sync(missing_in, typed, self._folder, self._terminal.pictures):
            near = await trio.to_thread.run_sync(like_file, name, self._folder)
            rows.append(f"@{name}: no such file{near}")
        if rows:
            self._terminal.show((aside(f"  {' · '.join(rows)}", Tone.DIM),))
        return files

    async def keep_in_memory(self, line: str) -> None:
        """Add *line* to the memory file that the person chooses, who sees it before; Escape drops it."""
        if not line:
            self._say("  # TEXT keeps that line in a memory file")
            return
        detail = await self._detail()
        hidden = BLOCKED_PATHS if detail is None else await hidden_from(detail.agent)
        paths = await memory_paths(None if detail is None else detail.agent)
        if not paths:
            self.refuse(f"this agent reads no memory file; begin the text with a space to send it: {line[2:]}")
            return
        rows = [
            f"{number}. {path}{'' if is_outside(path) else ' of this folder'}" for number, path in enumerate(paths, 1)
        ]
        index = await self._terminal.choose(f"{WHICH_MEMORY}\n  {escaped(line)}", rows)
        if index is None:
            self._say("  dropped; a text that begins with a space before # is a prompt")
            return
        await add_to_memory(paths[index], self._folder, line, hidden)
        self._say(f"  {paths[index]} has it now; sessions read it when they begin or come back")

    async def steer(self, text: str, typed: str, *, when: When = "gap") -> None:
        """Send *text*, which stands for what was *typed*, as steering, with the texts that it names as files."""
        message = with_parts(text, await self._files_in(typed, is_steering=True))
        with suppress(SteeringQueueFull):  # the event `SteeringReceived` shows the refusal already
            await self._session.steer(message if isinstance(message, str) else text_of(message), when=when)

    def _show_output(self, name: str, text: str) -> None:
        """Show what a command line has printed, and keep it for `/show`."""
        self.fold(name, text)
        rows = text.split("\n")
        more = [f"  … {len(rows) - MOST_PRINTED} more lines; /show"] if len(rows) > MOST_PRINTED else []
        self._say("\n".join([*(f"  {row}" for row in rows[:MOST_PRINTED]), *more]))

    def _say(self, text: str) -> None:
        self._terminal.show((aside(text),))

    # About this session

    async def help(self, _: str) -> None:
        """Show the table of commands."""
        table = "\n".join(f"  {f'{name} {argument}':<16} {purpose}" for name, argument, purpose in self._table)
        self._say(f"{INTRODUCTION}\n{table}")

    async def status(self, _: str) -> None:
        """Show the session's status."""
        self._terminal.show(described(await awaited(self._session.status())))

    async def show(self, number: str) -> None:
        """Show the full text of something that was folded to one row; *number* counts from the last one."""
        if number and not (number.isdecimal() and 0 < int(number) <= len(self._folded)):
            self.refuse(f"/show {number}: {len(self._folded)} texts are kept; 1 is the last one")
        elif self._folded:
            name, text = self._folded[-int(number or 1)]
            self._say(f"  {name}:\n{text}")
        else:
            self._say("  nothing was folded yet")

    async def why(self, _: str) -> None:
        """Show the last decisions of plugins and people."""
        self._say("\n".join(f"  {text}" for text in self._decisions) or "  nothing was decided yet")

    async def cost(self, _: str) -> None:
        """Show the tokens and the cost that the session has used."""
        usage = (await awaited(self._session.status())).usage
        cost = cost_text(usage, "unknown: there is no price for a model")
        self._say(
            f"  read      {usage.input_tokens} tokens, {usage.cached_tokens} of them from the provider's cache\n"
            f"  written   {usage.output_tokens} tokens, {usage.reasoning_tokens} of them thoughts\n"
            f"  cost      {cost}{' (estimated)' if usage.estimated else ''}"
        )

    async def model(self, name: str) -> None:
        """Switch to the model *name*, or show which model is in use."""
        if not name:
            self._say(f"  model: {(await awaited(self._session.status())).model}; /model NAME uses another")
            return
        try:
            await self._session.switch_model(name)
        except UsageError as error:
            if error.args[:2] != NO_MODEL:
                raise
            offered = NAME_IN_TEXT.findall(str(error).rpartition(" are ")[2].partition(" (did ")[0])
            await self._choose_model(name, offered)

    async def _choose_model(self, name: str, offered: Sequence[str]) -> None:
        """Ask which of the *offered* models *name* stands for, and use it; if keys are not read, only tell them."""
        name = clipped(one_line(name), SHORT)
        models = await trio.to_thread.run_sync(meant_models, name, offered, os.environ.get)
        if not models:
            self.refuse(f"there is no model {name}; there are {listed(offered)}")
        elif not self._terminal.keys:
            self.refuse(f"there is no model {name}; did you mean {' or '.join(f'`{model}`' for model in models)}?")
        else:
            keys = [f"   {key} is not set" if (key := missing_key(model, os.environ.get)) else "" for model in models]
            rows = [f"{number}. {model}{keys[number - 1]}" for number, model in enumerate(models, 1)]
            index = await self._terminal.choose(f"There is no model {name}. {WHICH_MODEL}", rows)
            if index is not None:
                await self._session.switch_model(models[index])

    async def mode(self, name: str) -> None:
        """Switch to the mode *name*, or to the next one; it says which calls run without asking."""
        mode = _mode_after(await self._mode_now()) if name == NEXT else mode_named(name)
        if mode not in CHANGEABLE_MODES:
            now = await self._mode_now()
            in_force = f"; now: {now}" if now else ""
            self._say(f"  /mode {' or '.join(CHANGEABLE_MODES)}: what runs without asking{in_force}")
            return
        await set_mode(self._session, mode)
        names = ["tools of MCP servers" if name == OF_SERVERS else name for name in ASK_FIRST[mode]]
        is_open = (await awaited(self._session.status())).turn_open
        since = " from the next turn on; /stop ends this one" if is_open else ""
        self._say(f"  mode {mode}: asks before {', '.join(names) or 'what its guard is not sure about'}{since}")

    async def _mode_now(self) -> Mode | None:
        """Return the mode in force; `None` if it is not known, as of an agent of a file."""
        detail = await self._detail()
        if detail is None:
            return None
        source = AgentSource.read(detail.agent)
        return mode_labelled(detail.labels) or (None if source is None else mode_named(source.mode or ""))

    async def steer_text(self, text: str) -> None:
        """Send *text* as steering; with `now` in front, it interrupts the response."""
        if not text:
            self._say("  /steer TEXT, or /steer now TEXT")
            return
        now, _, more = text.partition(" ")
        is_urgent = now == "now" and bool(more)
        words = more if is_urgent else text
        await self.steer(words, words, when="now" if is_urgent else "gap")

    async def stop(self, _: str) -> None:
        """Stop the command line that the person runs, or else abort the running turn."""
        if not self.shell.stop():
            await self._session.abort()

    async def later(self, text: str) -> None:
        """Send a prompt; it is queued if a turn is open."""
        if text:
            await self._session.prompt(await self.with_files(self.own_prompt(text) or text, text))
        else:
            self._say("  /later TEXT")

    async def queue(self, number: str) -> None:
        """List the queued prompts, or withdraw the one with this *number*."""
        prompts = await awaited(self._session.queued())
        if number.isdecimal() and 0 < int(number) <= len(prompts):
            await self._session.withdraw(prompts[int(number) - 1].ref)
        elif number:
            self.refuse(f"no prompt waits at place {number}")
        else:
            rows = [f"  {position}. {first_lines(prompt.text, '     ')}" for position, prompt in enumerate(prompts, 1)]
            self._say("\n".join(rows) or "  no prompt waits")

    async def tasks(self, _: str) -> None:
        """List the sub-agents."""
        tasks = await awaited(self._session.tasks())
        rows = [f"  {task.status:<8} {task.agent}: {clipped(one_line(task.description), SHORT)}" for task in tasks]
        self._say("\n".join(rows) or "  no sub-agent runs")

    async def compact(self, reason: str) -> None:
        """Compact the context of the session."""
        await self._session.compact(reason or None)

    async def init(self, _: str) -> None:
        """Prompt the agent to write what it should know of the folder."""
        await self._session.prompt(WRITE_AGENTS)

    async def export(self, name: str) -> None:
        """Write what was said into a new file, as Markdown; tool calls are left out."""
        if not name:
            self._say("  /export FILE")
            return
        messages = await awaited(self._session.messages())
        texts = [(HEADINGS.get(type(message)), message.text) for message in messages]
        parts = [f"## {heading}\n\n{text}\n" for heading, text in texts if heading and text.strip()]
        path = self._folder / with_home(name)
        try:
            await trio.to_thread.run_sync(_write_new, path, "\n".join(parts))
        except OSError as error:
            self.refuse(f"/export {name}: {error.strerror or error}")
        else:
            self._say(f"  {len(parts)} messages are in {path}")

    async def quit(self, _: str) -> None:
        """End the conversation in this terminal; the session goes on."""
        self.is_leaving = True

    # Commands that ask a host

    async def tools(self, _: str) -> None:
        """List the session's tools."""
        detail = await self._detail()
        self._list("tool", () if detail is None else detail.tools)

    async def mcp(self, _: str) -> None:
        """List the MCP servers whose tools the session has; such a tool is called `server__tool`."""
        detail = await self._detail()
        names = () if detail is None else detail.tools
        servers = Counter(name.partition("__")[0] for name in names if "__" in name)
        self._list("MCP server with tools", [f"{server}: {count} tools" for server, count in servers.items()])

    async def context(self, _: str) -> None:
        """Show what fills the window of the model: the parts of the context with their tokens, and what is free."""
        detail = await self._detail()
        if detail is None or detail.context is None or detail.status is None:
            self._say("  the session does not run: prompt it first")
            return
        messages = await awaited(self._session.messages())
        rows = context_rows(detail.context, detail.status.model, messages, await self._memory_files())
        self._say("\n".join(rows))

    async def _memory_files(self) -> Mapping[str, int]:
        """Return the tokens of each memory file, as of the last request; none if there was no request, or in time."""
        tokens = dict[str, int]()
        if self._supervisor is not None:
            with suppress(UnknownRequest), trio.move_on_after(MEMORY_WITHIN):
                request = await self._supervisor.session(self._session.id).seen()
                tokens = {part.name: part.tokens for part in request.parts if part.layer == MEMORY}
        return tokens

    async def permissions(self, number: str) -> None:
        """Show what is approved for always here, and take one back: of the *number*, or as the person chooses."""
        detail = await self._detail()
        allowed = () if detail is None else detail.allowed
        rows = [permission_row(position, approval) for position, approval in enumerate(allowed, 1)]
        if number.isdecimal() and 0 < int(number) <= len(allowed):
            await self._disallow(allowed[int(number) - 1])
        elif number:
            self.refuse(f"/permissions {number}: {len(allowed)} are approved for always; /permissions lists them")
        elif not rows:
            self._say("  nothing is approved for always in this session; `a` at a call that waits does that")
        elif not self._terminal.keys:
            self._say("\n".join([*(f"  {row}" for row in rows), HOW_TO_DISALLOW]))
        elif (index := await self._terminal.choose(WHICH_PERMISSION, rows)) is not None:
            await self._disallow(allowed[index])

    async def _disallow(self, approval: StandingApproval) -> None:
        await self._session.disallow(approval.tool, approval.command_family)
        self._say(f"  asked about again: {escaped(approval.command_family)} ({escaped(approval.tool)})")

    async def skills(self, _: str) -> None:
        """List the skills that the session's agent has in its folders now."""
        detail = await self._detail()
        rows = [] if detail is None else skill_rows(await skills_of(detail.agent))
        self._say("\n".join(rows) or "  no skill in the folders of this agent")

    async def plugins(self, _: str) -> None:
        """List the session's plugins."""
        detail = await self._detail()
        self._list("plugin", () if detail is None else detail.plugins)

    async def page(self, way: str) -> None:
        """Open the page in a browser; where there is none, or if *way* is `show`, show its address, with the key.

        It does not stay on the screen, but for a terminal of which no row can be taken away, and for a pipe.
        """
        page = self._find_page()
        if page is None:
            self._say("  the sessions have no page now")
        elif not self._terminal.keys:
            self._say(f"  {page.page}")
        elif way != SHOW and await trio.to_thread.run_sync(open_in_browser, page, abandon_on_cancel=True):
            self._say(f"  a browser opens the page; /page {SHOW} shows its address")
        else:
            await self._terminal.choose(f"{page.page}\n{PAGE_ADVICE}", ())

    def _list(self, kind: str, names: Sequence[str]) -> None:
        none = f"  no {kind}, or the session does not run: prompt it first"
        self._say("\n".join(f"  {name}" for name in names) or none)

    async def is_returning(self) -> bool:
        """Whether the session does not run now, but its host will start it again because its work was unfinished."""
        detail = await self._detail()
        return detail is not None and detail.status is None and detail.at_work and not (detail.ended or detail.problem)

    async def find_prompts(self) -> None:
        """Find the prompts of MCP servers that the session has already; events tell of those that come."""
        with suppress(AgentrailError):
            detail = await self._detail()
            if detail is not None:
                self.server_prompts.add(detail.tools)
            elif isinstance(self._session, SessionHandle):
                self.server_prompts.add(self._session.inspect().tools)

    async def _detail(self) -> DetailView | None:
        """Return the host's details of the session; `None` if the session runs in this process."""
        return None if self._supervisor is None else await self._supervisor.session(self._session.id).detail()

    # About other sessions

    async def resume(self, session_id: str) -> None:
        """Switch to another session: by its number in the list, its name, or as the person chooses."""
        if not session_id:
            await self._choose_session()
            return
        sessions = await self._listed()
        if session_id.isdecimal() and 0 < int(session_id) <= len(sessions):
            await self._change_to(sessions[int(session_id) - 1].session_id)
            return
        if _name(session_id) not in {_name(session.session_id) for session in sessions}:
            self.refuse(f"there is no session {session_id!r} in this list; /sessions shows it")
            return
        await self._change_to(session_id)

    async def _choose_session(self) -> None:
        """Switch to the session that the person chooses; if keys are not read, list the sessions."""
        sessions = await self._listed()
        waiting = () if self._supervisor is None else tuple(await self._supervisor.approvals())
        room = self._terminal.look.room - INDENT
        rows = session_rows(sessions, Clock().now_ms(), room, _name(self._session.id), waiting)
        if not (self._terminal.keys and rows):
            self._say("\n".join([*(f"  {row}" for row in rows), HOW_TO_RESUME if rows else "  there are none"]))
        elif (index := await self._terminal.choose(WHICH, rows)) is not None:
            await self._change_to(sessions[index].session_id)

    async def _change_to(self, session_id: str) -> None:
        """Go to a stored session; raise the error if it cannot be brought back, while this conversation is still here.

        Such an error is `RefusedError`, if somebody else has begun it.
        """
        if _name(session_id) == _name(self._session.id):
            self._say("  this is that session")
            return
        if self._supervisor is not None:
            async with self._supervisor.session(session_id).subscribe():  # brings it back
                pass
        self._go(session_id)

    async def new(self, _: str) -> None:
        """Switch to a new session."""
        self._go("")

    async def rewind(self, choice: str) -> None:
        """Go back before a prompt, whose number may be followed by `words`, `files` or `both`.

        The words go back in a copy of the session, with that prompt to be changed. Without a number the person chooses;
        if keys are not read, list the prompts.
        """
        if choice == AT_REST_ALONE:
            if (await awaited(self._session.status())).turn_open:  # it has begun since the key came
                return
            choice = ""
        prompts = await taken_prompts(self._session, self._supervisor)
        rows = [prompt.row(position) for position, prompt in enumerate(prompts, 1)]
        number, _, name = choice.partition(" ")
        rewind = rewind_named(name.strip() or "words")
        if number.isdecimal() and 0 < int(number) <= len(prompts) and rewind is not None:
            await self._rewind_to(prompts[int(number) - 1], rewind)
        elif choice:
            self.refuse(f"/rewind {choice}: {len(prompts)} prompts were taken; {HOW_TO_REWIND}")
        elif not rows:
            self._say("  no prompt was taken yet")
        elif not self._terminal.keys:
            self._say("\n".join([*(f"  {row}" for row in rows), f"  {HOW_TO_REWIND}"]))
        else:
            previews = [preview(prompts[index:]) for index in range(len(prompts))]
            index = await self._terminal.choose(WHICH_PROMPT, rows, previews, start=len(rows) - 1)
            if index is not None and (chosen := await self._choose_rewind(prompts[index])) is not None:
                await self._rewind_to(prompts[index], chosen)

    async def _choose_rewind(self, prompt: TakenPrompt) -> Rewind | None:
        """Have the person choose what goes back before *prompt*; the words, if no file was changed since."""
        if prompt.session is not self._session:
            return "words"
        try:
            files = await self._session.preview_rewind(prompt.ref)
            rows = () if files == RewindPreview() else rows_of(files)
        except AgentrailError as error:
            rows = () if error.code == "no-snapshots" else (f"  {one_line(str(error))}",)
        if not rows:
            return "words"
        index = await self._terminal.choose(WHAT, ROWS, [(), rows, rows])
        return None if index is None else REWINDS[index]

    async def _rewind_to(self, prompt: TakenPrompt, rewind: Rewind) -> None:
        if rewind != "words":
            await self._bring_back(prompt)
        if rewind != "files":
            self.next_text = without_files(prompt.text)
            fork = await prompt.session.fork(prompt.ref, new_name())
            self._say(await left_behind(fork, has_files=rewind == "words"))
            self._go(fork.id)

    async def _bring_back(self, prompt: TakenPrompt) -> None:
        """Bring back the files that calls have changed since *prompt*, but those that somebody else changed, too."""
        if prompt.session is not self._session:
            raise BadInputError(NOT_OF_COPIES)
        files = await self._session.preview_rewind(prompt.ref)
        if not files.files or files.edited or files.left_out:
            self._say("\n".join(rows_of(files.but(files=()))))
        if files.files:  # an event tells them, which may be shown before `rewind` returns
            await self._session.rewind(prompt.ref, files_named(files))

    async def fork(self, _: str) -> None:
        """Fork the session, and switch to the fork."""
        self._go((await self._session.fork(id=new_name())).id)

    def _go(self, session_id: str) -> None:
        self.next_id, self.is_leaving = session_id, True

    async def _listed(self) -> list[StoredSession]:
        """Return the sessions of this folder, the last used first; empty without a supervisor."""
        return [] if self._supervisor is None else (await last_used(self._supervisor, self._label))[:MOST_LISTED]


def command_advice(typed: str, names: Sequence[str]) -> str:
    """Return advice for a command that there is not: the few of *names* that begin so, else one that is similar."""
    begun = [name for name in names if name.startswith(typed)]
    if not 0 < len(begun) <= MOST_BEGUN:
        return advice(typed, names, "there are")
    return f"did you mean {' or '.join(f'`{name}`' for name in begun)}?"


def _name_and_rest(text: str) -> tuple[str, str]:
    """Return the name of a command, and the text that follows it, maybe on another line."""
    name, *rest = text.split(maxsplit=1)  # it begins with a slash
    return name, "".join(rest).strip()


def _as_steered(file: NamedFile) -> NamedFile:
    """Return what of *file* goes with steering: its text, if it is one."""
    return file if isinstance(file.part, Text) else file._replace(part=None, extent=NO_TEXT)


def permission_row(number: int, approval: StandingApproval) -> str:
    """Return the row of an approval for always in a list, in which it has this *number*."""
    by = f", by {escaped(approval.by)}" if approval.by else ""
    since = f", since {date_and_time(approval.at_ms)}" if approval.at_ms else ""
    return f"{number}. {escaped(approval.command_family)} ({escaped(approval.tool)}{by}{since})"


def _name(session_id: str) -> str:
    return session_id.removeprefix(OWN)


async def set_mode(session: AnySession, mode: Mode) -> None:
    """Set which tools of the default agent need approval, as *mode* says. Mode `plan` cannot be set, as it lacks tools.

    A label tells other clients of the session.
    """
    await session.update_plugin("HumanApproval", tools=list(ASK_FIRST[mode]), pin=True)
    await session.label([MODE_LABEL + mode], [MODE_LABEL + other for other in CHANGEABLE_MODES if other != mode])


def _mode_after(mode: Mode | None) -> Mode:
    """Return the mode that a single key changes to after *mode*: never `yes`, which lets everything pass."""
    return "edits" if mode == "ask" else "ask"


def mode_labelled(labels: Iterable[str]) -> Mode | None:
    """Return the mode in *labels*, which `set_mode` wrote; `None` if the session still has its first mode."""
    names = [label.removeprefix(MODE_LABEL) for label in labels if label.startswith(MODE_LABEL)]
    return mode_named(names[0]) if names else None


async def last_used(supervisor: RemoteSupervisor, label: str | None) -> list[StoredSession]:
    """Return the sessions that have not ended, the last used first; only those with *label* if it is given."""
    sessions = await supervisor.stored(label=label, ended=False)
    return sorted(sessions, key=lambda session: session.active, reverse=True)


def _write_new(path: Path, text: str) -> None:
    """Write *text* into a file that is not there yet."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def _ends_of(words: Mapping[str, str], beginning: str) -> Mapping[str, str]:
    return {word.removeprefix(beginning): about for word, about in words.items() if word.startswith(beginning)}


CHOICES: Final[Mapping[str, Callable[[str], Sequence[str]]]] = {
    "/model": models_like,
    "/mode": lambda _: CHANGEABLE_MODES,
}
"""What may follow a command, by what is typed of it."""

ALIASES: Final = {"/exit": "/quit", "/clear": "/new", "/sessions": "/resume"}
"""Other names of commands."""

HERE: Final = (
    ConsoleCommand(
        STEER, "TEXT", "steer; /steer now TEXT does not wait for the end of the answer", ConsoleCommands.steer_text
    ),
    ConsoleCommand(
        "/later", "TEXT", "a prompt for when nothing runs; Alt-Enter behind a text does the same", ConsoleCommands.later
    ),
    ConsoleCommand(STOP, "", "stop what runs; Escape does the same", ConsoleCommands.stop),
    ConsoleCommand("/show", "NUMBER", "the last result or thought in whole; 2: the one before", ConsoleCommands.show),
    ConsoleCommand("/status", "", "what the session is doing, and what it has used", ConsoleCommands.status),
    ConsoleCommand("/why", "", "who has decided lately about calls, prompts and ends, and why", ConsoleCommands.why),
    ConsoleCommand("/cost", "", "tokens and money of this session", ConsoleCommands.cost),
    ConsoleCommand("/model", "NAME", "use another model from the next turn on", ConsoleCommands.model),
    ConsoleCommand(
        "/mode",
        "MODE",
        "`ask`, `edits` or `yes`: what runs without asking; Shift-Tab: `ask` or `edits`",
        ConsoleCommands.mode,
    ),
    ConsoleCommand(
        "/queue", "NUMBER", "list the prompts that wait; with a number, take one back", ConsoleCommands.queue
    ),
    ConsoleCommand("/tasks", "", "list the sub-agents", ConsoleCommands.tasks),
    ConsoleCommand("/compact", "REASON", "shorten the conversation that the model gets", ConsoleCommands.compact),
    ConsoleCommand("/init", "", "have the agent write AGENTS.md, what it should know here", ConsoleCommands.init),
    ConsoleCommand("/export", "FILE", "write the conversation into a new file, as Markdown", ConsoleCommands.export),
    ConsoleCommand("/help", "", "this", ConsoleCommands.help),
    ConsoleCommand("/quit", "", "leave", ConsoleCommands.quit),
)
"""The commands about this session, in the order of the help."""

OTHERS: Final = (
    ConsoleCommand("/resume", "NUMBER", "go on with another session; /sessions does the same", ConsoleCommands.resume),
    ConsoleCommand("/new", "", "begin a new session, as /clear does; this one is kept", ConsoleCommands.new),
    ConsoleCommand("/fork", "", "go on in a copy of this session", ConsoleCommands.fork),
    ConsoleCommand(
        "/rewind",
        "NUMBER",
        "go back before a prompt, in a copy; `/rewind 2 files` or `both`: files, too",
        ConsoleCommands.rewind,
    ),
    ConsoleCommand("/tools", "", "list the tools of this session", ConsoleCommands.tools),
    ConsoleCommand(
        "/permissions",
        "NUMBER",
        "what is approved for always; have it asked again",
        ConsoleCommands.permissions,
    ),
    ConsoleCommand("/context", "", "what fills the window of the model, and what is free", ConsoleCommands.context),
    ConsoleCommand("/mcp", "", "list the MCP servers that have tools here", ConsoleCommands.mcp),
    ConsoleCommand("/skills", "", "list the skills that its agent finds now", ConsoleCommands.skills),
    ConsoleCommand("/plugins", "", "list its plugins, in the order in which they are asked", ConsoleCommands.plugins),
    ConsoleCommand("/page", "", "open these sessions in a browser; /page show tells the address", ConsoleCommands.page),
)
"""Those about other sessions, and those for which a host is asked."""

COMMANDS: Final = (*OTHERS, *HERE)

NAMES: Final = frozenset({*ALIASES, *(row.name for row in COMMANDS)})
"""What no command of a project may be called."""
