"""`SessionCalls`: the methods of handles that send a command, the same for a session here and for one at a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from agentrail.hooks.plugin import AnyPlugin, Attachable
from agentrail.lazy import LazyModule
from agentrail.values.json import Json, freeze_object

if TYPE_CHECKING:
    from agentrail.api import command_checks
    from agentrail.api.command_checks import AnyCommand
    from agentrail.api.session_values import HeldCall
    from agentrail.core.vocabulary import commands
    from agentrail.ports.model import ModelChain
    from agentrail.values.events.people import ApprovalRequired, ResultRequired
    from agentrail.values.tools import Err, Ok
else:  # imported at the first use: programs that only read stored sessions do not need these modules
    commands = LazyModule("agentrail.core.vocabulary.commands")
    command_checks = LazyModule("agentrail.api.command_checks")


class SessionCalls(Protocol):
    """The commands of a session, each as a method that makes its value and sends it. Handles inherit them."""

    __slots__ = ()

    async def _send(self, input_: AnyCommand, command: str | None = None) -> None:
        """Check a command and send it: each method below makes one."""
        ...

    # Stopping

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: Literal["none", "killable", "all"] = "killable",
        clear_queue: bool = False,
        turn: str | None = None,
        command: str | None = None,
    ) -> None:
        """Stop the session's work at once; return when that is journaled, or at once if the journal cannot write.

        With *turn*, the id of a prompt, only its turn is aborted: nothing happens if it is over, or has not begun.
        """
        abort = commands.AbortSent(reason, kill_tools, clear_queue, turn="" if turn is None else turn)
        await self._send(abort, command)

    async def stop(self, reason: str = "stopped", *, command: str | None = None) -> None:
        """End the session for good; return when it has ended, or raise `NotWrittenYet` if the journal cannot write."""
        await self._send(commands.StopSent(reason), command)

    async def compact(self, reason: str | None = None, *, command: str | None = None) -> None:
        """Have the context shortened: at once if no turn is open, else before the next request.

        Return when that is journaled, before it begins; the event `CompactEnd` says what was done. If there is nothing
        to drop, or no room for a summary, or the summary fails, no message goes, and its note says why; but if the next
        request of an open turn would be over `compact_at`, they go. Raise `Busy` while a turn waits for a person.
        """
        await self._send(commands.CompactSent(reason), command)

    # Deciding

    async def approve(
        self,
        approval_id: str | HeldCall | ApprovalRequired,
        args: Mapping[str, Json] | None = None,
        *,
        always: bool = False,
        auto_resume: bool = True,
        command: str | None = None,
    ) -> None:
        """Let a held call run, given by itself, its event or its id, with edited *args* if given.

        With *always*, later calls of its family pass too. If the call is another than the one given, by itself or its
        event, raise `NotAsShown`; an id alone does not say what was shown.

        With `SESSION:CALL` of a stopped call, end the doubt about it: it does not run, and an equal one is not held.
        """
        call, digest = command_checks.shown_call(approval_id)
        edited = None if args is None else freeze_object(args)
        await self._send(commands.ApproveSent(call, edited, always, auto_resume, digest=digest), command)

    async def disallow(self, tool: str, command_family: str, *, command: str | None = None) -> None:
        """Take an approval for always back: later calls of the *command_family* of *tool* are held again.

        No-op if there is none. A call that was let pass already goes on.
        """
        await self._send(commands.DisallowSent(tool, command_family), command)

    async def reject(
        self,
        approval_id: str | HeldCall | ApprovalRequired,
        reason: str | None = None,
        *,
        auto_resume: bool = False,
        command: str | None = None,
    ) -> None:
        """Reject a held call, given as to `approve`: it gets an error result with the *reason*."""
        call, digest = command_checks.shown_call(approval_id)
        await self._send(commands.RejectSent(call, reason, auto_resume, digest=digest), command)

    async def respond(self, ref: str | HeldCall, answer: str, *, command: str | None = None) -> None:
        """Answer a question that a tool asked, given by the held call or its id."""
        await self._send(commands.RespondSent(command_checks.held_id(ref, "ref"), answer), command)

    async def result(self, call: str | HeldCall | ResultRequired, result: Ok | Err) -> None:
        """Give a call of a tool that is `elsewhere` its result; raise `BadResult` if it does not fit the tool's schema.

        The same result again does nothing; another one, or one that comes too late, raises `ResultNotWanted`.
        """
        ref = command_checks.awaited_call(call)
        await self._send(commands.ResultSent(ref, command_checks.result_of(result)))

    # Changing

    async def switch_model(self, model: ModelChain, *, command: str | None = None, **provider_options: Json) -> None:
        """Use another model, with fallback models if a chain is given, from the next turn on."""
        await self._send(command_checks.UseModel(model, freeze_object(provider_options)), command)

    async def attach_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, all or none; or a source of tools, such as an `McpServer`, and wait for its tools."""
        await self._send(command_checks.EditTools("attach", tools), command)

    async def detach_tools(self, *names: str, command: str | None = None) -> None:
        """Remove tools, all or none; the name of a source removes all its tools and ends it."""
        await self._send(command_checks.EditTools("detach", names), command)

    async def replace_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, or a source of tools, in place of those with the same names."""
        await self._send(command_checks.EditTools("replace", tools), command)

    async def update_plugin(
        self, plugin: str | type[AnyPlugin], /, *, command: str | None = None, pin: bool = False, **options: object
    ) -> None:
        """Change options of a plugin as soon as no turn is open; with *pin* they survive changes of the code."""
        await self._send(command_checks.UpdatePlugin(command_checks.key_of(plugin), options, pin), command)

    async def attach_plugin(self, plugin: Attachable | str, *, command: str | None = None) -> None:
        """Add a plugin as soon as no turn is open."""
        await self._send(command_checks.AttachPlugin(plugin), command)

    async def detach_plugin(self, plugin: str | type[AnyPlugin], *, command: str | None = None) -> None:
        """Remove a plugin as soon as no turn is open."""
        await self._send(commands.DetachPluginSent(command_checks.key_of(plugin)), command)

    async def label(
        self,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Add and remove labels, by which stored sessions are found, and change the title if one is given."""
        added, removed = command_checks.labels_of("add", add), command_checks.labels_of("remove", remove)
        await self._send(commands.LabelSent(added, removed, title), command)

    async def withdraw(self, ref: str, *, command: str | None = None) -> None:
        """Remove a prompt from the queue, given its ref."""
        await self._send(commands.WithdrawSent(ref), command)

    # Sub-agents

    async def message_task(self, child: str, text: str, *, command: str | None = None) -> None:
        """Send a message to a running sub-agent, which gets it before its next request; its work goes on."""
        await self._send(command_checks.MessageTask(child, text), command)

    async def cancel_task(self, child: str) -> None:
        """Stop a sub-agent, and wait until all of it has ended; its records stay in the journal."""
        await self._send(command_checks.CancelTask(child))

    # Suspending

    async def suspend(self) -> None:
        """Let all but urgent commands (abort, stop) and timers wait until `resume`; running work goes on."""
        await self._send(commands.SuspendSent())

    async def resume(self) -> None:
        """Handle the messages that have waited since `suspend`; continue a turn that recovery paused.

        As any command, it wakes a session that hibernates.
        """
        await self._send(commands.ResumeSent())
