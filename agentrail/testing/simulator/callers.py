"""The callers of a simulation, and the table of their actions (`DOINGS`): calls to the handles of sessions.

When a call has returned, each action checks that the journal contains what the caller was told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from agentrail.core.vocabulary.commands import Accepted, Kill, PromptSent, When
from agentrail.core.vocabulary.state import Phase
from agentrail.errors import AgentrailError, CommandConflict, LeftItsRow, PromptWasDropped, QueueFull, ReplayDiffers
from agentrail.hooks.plugin import Keyed
from agentrail.runtime.handle import SessionHandle, ask_at_once
from agentrail.testing.probe_plugins import ArgsReplacer, Listener
from agentrail.testing.simulator.auditor import SAYS, Book
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.faulty_parts import SimulatedWorker
from agentrail.testing.simulator.specs import NAMES, fitted
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.next_inputs import LABELS
from agentrail.testing.world.random_results import FILES
from agentrail.testing.world.random_setups import ANSWER, fits_answer
from agentrail.values.content import Part, Text
from agentrail.values.tools import EffectClass, ToolSpec, err, ok
from agentrail.values.value import Value

EXTRA: Final = fitted(ToolSpec("extra", "comes and goes", effect=EffectClass.PURE, timeout=2.0))
FLOOD: Final = 100
MISUSED: Final = "an answer that no caller gets"


class SimulatedCaller:
    """A simulated user of sessions: calls their handles at random, and checks the answers."""

    def __init__(self, environment: Environment, name: str) -> None:
        self.environment = environment
        self.name = name
        self.choose = environment.choice("caller", name)
        self.said = 0
        self._secret = environment.choice("canary", "caller", name)
        self.sent: list[tuple[str, str]] = []

    def text(self) -> str:
        """Return a text that no caller has sent before."""
        self.said += 1
        return f"{self.name}{SAYS}{self.said}{self.environment.canary(self._secret)}"

    def parts(self, text: str) -> tuple[Part, ...]:
        """Return the parts of a prompt with *text*: the text, and now and then a file."""
        chance = self.environment.choice("files", text)
        return (Text(text), chance.pick(FILES)) if chance.percent(10) else (Text(text),)

    def command(self) -> str | None:
        """Return a command id for the next call, or `None` for a call without one."""
        return f"{self.name}-{self.said}" if self.choose.percent(40) else None

    def book(self, handle: SessionHandle) -> Book:
        """Return the auditor's book of the session: what its records say."""
        return self.environment.auditor.book(handle.id)

    def told(self, holds: bool, handle: SessionHandle, what: str) -> None:
        """Report a broken rule unless *holds*: the journal must have *what* this caller got as an answer."""
        self.environment.demand(
            holds, "acknowledged", "{} was told of {} of `{}`; it is not written", self.name, what, handle.id
        )

    async def do(self, doing: Doing, handle: SessionHandle) -> None:
        """Carry out the action *doing*; if a fault fires, the caller is cancelled during it.

        An `AgentrailError` counts as a refusal, unless it says that the machine broke its table or a replay differs.
        """
        environment = self.environment
        environment.doings[doing.name] += 1
        seconds = self.choose.below(300) / 1000 if environment.fires("caller_leaves") else float("inf")
        outcome = "done"
        try:
            with trio.move_on_after(seconds) as scope:
                await doing.call(self, handle)
            outcome = "left" if scope.cancelled_caught else outcome
        except AgentrailError as error:
            outcome = type(error).__name__
            environment.demand(
                not isinstance(error, LeftItsRow | ReplayDiffers), "crashes", "{}: {}", doing.name, error
            )
        environment.verdict.note(self.name, doing.name, handle.id, outcome)

    # Sending texts

    async def sends(
        self,
        handle: SessionHandle,
        send: Callable[[str, str | None], Awaitable[Accepted]],
    ) -> None:
        """Send a new text, maybe under a command id; if faults fire, send it again, or another text under the id."""
        text, command = self.text(), self.command()
        accepted = await send(text, command)
        self.told(accepted.ref in self.book(handle).accepted, handle, f"{accepted}")
        if command is None:
            return
        self.told(command in self.book(handle).commands, handle, f"the command {command}")
        if self.environment.fires("command_twice"):
            again = await send(text, command)
            self.environment.demand(
                again == accepted, "commands", "{} is answered {}, then {}", command, accepted, again
            )
            await self.repeats(handle)
        if self.environment.fires("command_reused"):
            try:
                other = await send(f"{text}, or not", command)
            except CommandConflict:
                return
            self.environment.demand(
                False, "commands", "{} was used for something else, and is answered {}", command, other
            )

    async def repeats(self, handle: SessionHandle) -> None:
        """Send an earlier prompt again under its command id, also of an earlier life, and compare the answers."""
        commands = self.book(handle).commands.items()
        old = [
            (command, sent_command, answer)
            for command, (sent_command, answer) in commands
            if isinstance(sent_command, PromptSent)
        ]
        command, prompt, answer = self.choose.pick(old) if old else (None, None, None)
        if prompt is not None and isinstance(answer, Accepted):
            again = await handle.prompt(prompt.parts, command=command)
            self.environment.demand(
                again == answer, "commands", "{} was answered {}, and now {}", command, answer, again
            )

    async def insists(self, handle: SessionHandle, text: str, command: str) -> None:
        """Send *text* under the id *command*; check that the answer is the one stored for this id, if there is one."""
        try:
            outcome = f"{await handle.prompt(text, command=command)}"
        except (PromptWasDropped, QueueFull) as refused:
            outcome = f"{refused}"
        except AgentrailError:  # the journal or the session failed, so this is no answer to the command
            return
        (_, first_outcome) = self.environment.answers.setdefault((handle.id, command), (text, outcome))
        self.environment.demand(
            outcome == first_outcome, "answers", "{} was answered {!r}, and now {!r}", command, first_outcome, outcome
        )


class Doing(Value, gc=True):
    """An action of callers: one call to a handle, with checks after it."""

    name: str
    """Name of the action."""
    weight: int
    """Weight with which the action is drawn."""
    call: Callable[[SimulatedCaller, SessionHandle], Awaitable[None]]
    """Function that carries out the action."""


async def _prompts(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await caller.sends(handle, lambda text, command: handle.prompt(caller.parts(text), command=command))


async def _prompts_at_once(caller: SimulatedCaller, handle: SessionHandle) -> None:
    async def prompt(text: str, command: str | None) -> Accepted:
        return (await ask_at_once(handle, text, command=command)).accepted

    await caller.sends(handle, prompt)


async def _asks(caller: SimulatedCaller, handle: SessionHandle) -> None:
    reply = await handle.ask(caller.text(), command=caller.command())
    book = caller.book(handle)
    caller.told(reply.ref in book.accepted, handle, f"the reply to {reply.ref}")
    caller.told(reply.stop_reason == "held" or reply.ref in book.ended, handle, f"the end of {reply.ref}")


async def _asks_for(caller: SimulatedCaller, handle: SessionHandle) -> None:
    reply = await handle.ask(caller.text(), returns=ANSWER, command=caller.command())
    caller.environment.demand(
        fits_answer(ANSWER, reply) is None, "forms", "{} asked for a sum, and got {}", caller.name, reply
    )


async def _floods(caller: SimulatedCaller, handle: SessionHandle) -> None:
    if not caller.environment.fires("mailbox_flood"):
        return
    async with trio.open_nursery() as nursery:  # noqa: TID251 - its tasks end when all calls are answered
        for number in range(FLOOD):
            nursery.start_soon(_one_of_many, handle, f"flood {number}")


async def _one_of_many(handle: SessionHandle, text: str) -> None:
    """Send one prompt of many; a refusal is no fault."""
    try:
        await handle.prompt(text)
    except AgentrailError:
        return


async def _steers(caller: SimulatedCaller, handle: SessionHandle) -> None:
    when: When = caller.choose.pick(("gap", "now"))
    await caller.sends(handle, lambda text, command: handle.steer(text, when=when, command=command))


async def _clears(caller: SimulatedCaller, handle: SessionHandle) -> None:
    """Send prompts while an abort clears the queue; then send all of them again, and check the answers."""
    earlier = [
        (text, command) for (owner, command), (text, _) in caller.environment.answers.items() if owner == handle.id
    ]
    fresh = [(caller.text(), f"{caller.name}-clear-{caller.said}") for _ in range(3)]
    prompts = [
        *fresh,
        *([caller.environment.choice("again", caller.name, caller.said).pick(earlier)] if earlier else ()),
    ]
    async with trio.open_nursery() as nursery:  # noqa: TID251 - its tasks end when all calls are answered
        for text, command in prompts:
            nursery.start_soon(caller.insists, handle, text, command)
        await trio.lowlevel.checkpoint()
        with suppress(AgentrailError):
            await handle.abort("clear", clear_queue=True)
    for text, command in prompts:
        await caller.insists(handle, text, command)


async def _aborts(caller: SimulatedCaller, handle: SessionHandle) -> None:
    if caller.environment.fires("queue_cleared"):
        await _clears(caller, handle)
    choose = caller.choose
    reason = caller.text() if choose.percent(70) else None
    kill: Kill = choose.pick(("killable", "all", "none"))
    book = caller.book(handle)
    relieved = caller.environment.relieved
    old_counts = book.aborts, relieved[handle.id]  # aborts that wait are joined into one, so only the number is checked
    clears, command = choose.percent(30), caller.command()
    is_repeat = command in book.commands  # the caller's last command had this id, so its old answer is returned
    await handle.abort(reason, kill_tools=kill, clear_queue=clears, command=command)
    is_written, answered_early = book.aborts > old_counts[0], relieved[handle.id] > old_counts[1]
    caller.told(is_written or answered_early or is_repeat, handle, f"the abort {reason!r}")


async def _decides(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await decide(caller, handle, caller.choose)


async def decide(caller: SimulatedCaller, handle: SessionHandle, choose: Choose) -> None:
    """Decide one held call or question at random; if there is none, sometimes approve an unknown id."""
    waiting = handle.status().held
    if not waiting:
        if choose.percent(5):
            await handle.approve("nothing")
            caller.told(False, handle, MISUSED)
        return
    call = choose.pick(waiting)
    if call.kind == "question":
        await handle.respond(call.id, caller.text())
    elif call.kind == "result":
        result = err("not there") if choose.percent(30) else ok("made elsewhere")
        for _ in range(2 if choose.percent(30) else 1):  # given twice, it counts once
            await handle.result(call, result)
    elif choose.percent(60):
        args = {"path": "edited"} if choose.percent(30) else None
        always = args is None and call.family is not None and choose.percent(20)
        await handle.approve(call, args, always=always, auto_resume=choose.percent(80), command=caller.command())
    else:
        await handle.reject(call, "no", auto_resume=choose.percent(50))
    # The hold may be that of a sub-agent
    decided = any(call.id in book.decided for book in caller.environment.auditor.books.values())
    caller.told(decided, handle, f"the decision about {call.id}")


async def _withdraws(caller: SimulatedCaller, handle: SessionHandle) -> None:
    queued = handle.queued()
    if queued:
        await handle.withdraw(caller.choose.pick(queued).ref)


async def _disallows(caller: SimulatedCaller, handle: SessionHandle) -> None:
    approvals = handle.inspect().standing_approvals
    if approvals:
        approval = caller.choose.pick(approvals)
        await handle.disallow(approval.tool, approval.command_family, command=caller.command())


async def _labels(caller: SimulatedCaller, handle: SessionHandle) -> None:
    label, other = caller.choose.pick(LABELS), caller.choose.pick(LABELS)
    await handle.label([label], [other], title=caller.choose.pick((None, label)), command=caller.command())


async def _compacts(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await handle.compact(caller.choose.pick((None, "it is long")))


async def _switches(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await handle.switch_model(caller.choose.pick(NAMES))


async def _changes_tools(caller: SimulatedCaller, handle: SessionHandle) -> None:
    worker = SimulatedWorker(caller.environment, handle.id, EXTRA)
    match caller.choose.below(3):
        case 0:
            await handle.attach_tools(worker)
        case 1:
            await handle.detach_tools("extra")
        case _:
            await handle.replace_tools(worker)


async def _changes_plugins(caller: SimulatedCaller, handle: SessionHandle) -> None:
    match caller.choose.below(3):
        case 0:
            await handle.attach_plugin(Keyed("late", Listener(0, 5)))
        case 1:
            await handle.detach_plugin("late")
        case _:
            await handle.update_plugin(ArgsReplacer, args={"path": caller.choose.pick(("a", "c"))})


async def _suspends(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await handle.suspend()
    await trio.sleep(caller.choose.below(2000) / 1000)
    await handle.resume()


async def _resumes(_: SimulatedCaller, handle: SessionHandle) -> None:
    await handle.resume()


async def _looks(caller: SimulatedCaller, handle: SessionHandle) -> None:
    await trio.lowlevel.checkpoint()
    state, book = handle.inspect(), caller.book(handle)
    if state.phase is Phase.NEW:
        return
    caller.environment.demand(
        state.last_seq <= book.seq, "visible", "`{}` shows event {} of {}", handle.id, state.last_seq, book.seq
    )
    handle.status()
    handle.messages()


async def _stops(caller: SimulatedCaller, handle: SessionHandle) -> None:
    if caller.choose.percent(80):
        return
    await handle.stop(command=caller.command())
    caller.told(caller.book(handle).stopping, handle, "its end")


DOINGS: Final = (
    Doing("prompt", 20, _prompts),
    Doing("prompt_nowait", 5, _prompts_at_once),
    Doing("ask", 15, _asks),
    Doing("ask_for", 4, _asks_for),
    Doing("flood", 2, _floods),
    Doing("steer", 12, _steers),
    Doing("abort", 8, _aborts),
    Doing("decide", 25, _decides),
    Doing("withdraw", 2, _withdraws),
    Doing("disallow", 1, _disallows),
    Doing("label", 1, _labels),
    Doing("compact", 2, _compacts),
    Doing("switch_model", 2, _switches),
    Doing("change_tools", 3, _changes_tools),
    Doing("change_plugins", 3, _changes_plugins),
    Doing("suspend", 1, _suspends),
    Doing("resume", 1, _resumes),
    Doing("look", 5, _looks),
    Doing("stop", 1, _stops),
)
"""The actions of callers; each is one call to a handle, with checks of its answer."""

MEDDLING: Final = tuple(
    doing for doing in DOINGS if doing.name in ("steer", "abort", "decide", "stop", "prompt_nowait")
)
"""The actions that the fault `meddling` carries out while a session is in the middle of its work."""
