"""Scenes of a session's mailbox: how many messages, and how many bytes, may wait in each lane."""

import math
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import MailboxFull
from agentrail.events import MessageDelta
from agentrail.models import EmitChunk, ModelRequest, Response, Text, TextChunk
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import MAX_BYTES, Mailbox
from agentrail.runtime.shared.admission import WIDTH, Gate
from agentrail.runtime.shared.reply_slot import Slot
from tests.kit import AbortSent, PromptSent, SteerSent, TimerFired
from tests.limits import scene

MESSAGES = "runtime.inbox.mailbox.MAX_MESSAGES"
BYTES = "runtime.inbox.mailbox.MAX_BYTES"


def opened() -> Mailbox:
    return Mailbox("s", Gate(math.inf))


def prompt(size: int = 1, text: str = "hi") -> Letter:
    return Letter(PromptSent((Text(text),)), answer=Slot(), size=size)


def steering_letter(size: int = 1) -> Letter:
    return Letter(SteerSent("left"), answer=Slot(), size=size)


def fits(post: Callable[[Letter], object], *letters: Letter) -> bool:
    """Return whether none of the letters is refused."""
    try:
        for letter in letters:
            post(letter)
    except MailboxFull:
        return False
    return True


def two(together: int) -> tuple[Letter, Letter]:
    """Return two prompts with *together* bytes in all; a single one would always pass."""
    return prompt(together - 1), prompt(1)


# Messages


@scene(MESSAGES)
def user_lane(count: int) -> bool:
    mailbox = opened()
    return fits(mailbox.post_user_nowait, *(prompt() for _ in range(count)))


@scene(MESSAGES)
def control_lane(count: int) -> bool:
    mailbox = opened()
    return fits(mailbox.post_control, *(Letter(AbortSent(), command=f"{number}") for number in range(count)))


@scene(MESSAGES)
def said_beside_the_results(count: int) -> bool:
    mailbox = opened()
    for number in range(count):
        mailbox.post_result(Letter(TimerFired(f"{number}")))
    return fits(mailbox.post_steering, *(steering_letter() for _ in range(count)))


@scene(MESSAGES)
async def sender_that_waits(count: int) -> bool:
    mailbox = opened()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(mailbox.send, prompt())
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return mailbox.lengths[2] == count


# Bytes, also when those of letters that are gone were counted


@scene(BYTES)
def bytes_of_the_user(together: int) -> bool:
    return fits(opened().post_user_nowait, *two(together))


@scene(BYTES)
def bytes_beside_the_results(together: int) -> bool:
    mailbox = opened()
    mailbox.post_steering(steering_letter(together - 1))
    return fits(mailbox.post_steering, steering_letter())


@scene(BYTES)
async def bytes_of_letters_that_were_received(together: int) -> bool:
    mailbox = opened()
    assert fits(mailbox.post_user_nowait, *two(MAX_BYTES))
    for _ in range(2):
        await mailbox.receive()
    return fits(mailbox.post_user_nowait, *two(together))


@scene(BYTES)
async def bytes_of_letters_that_were_cleared(together: int) -> bool:
    mailbox = opened()
    assert fits(mailbox.post_user_nowait, *two(MAX_BYTES))
    mailbox.post_control(Letter(AbortSent(clear_queue=True)))
    for _ in range(2):
        assert isinstance((await mailbox.receive()).input, PromptSent)
    return fits(mailbox.post_user_nowait, *two(together))


@scene(BYTES)
async def bytes_of_a_letter_that_was_put_back(together: int) -> bool:
    mailbox = opened()
    mailbox.post_user_nowait(prompt(together - 1))
    mailbox.put_back(await mailbox.receive())
    return fits(mailbox.post_user_nowait, prompt())


@scene(BYTES)
async def bytes_of_a_result_that_was_put_back(together: int) -> bool:
    """They count in another lane; the user lane has as much room as before."""
    mailbox = opened()
    mailbox.post_steering(steering_letter(MAX_BYTES))
    mailbox.put_back(await mailbox.receive())
    return fits(mailbox.post_user_nowait, *two(together))


async def waited(mailbox: Mailbox, letter: Letter, freed: Callable[[], Awaitable[object]]) -> bool:
    """Return whether a sender that waits for room is let in after *freed* has run."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.send, letter)
        await trio.testing.wait_all_tasks_blocked()
        await freed()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return letter.number > 0


@scene(BYTES)
async def bytes_of_a_sender_that_waits(together: int) -> bool:
    mailbox = opened()
    mailbox.post_user_nowait(prompt(5))
    mailbox.post_user_nowait(prompt(MAX_BYTES - 5))
    return await waited(mailbox, prompt(together - (MAX_BYTES - 5)), mailbox.receive)


# Turns


@scene("runtime.inbox.mailbox.PATIENCE")
async def urgent_letters_before_one_of_the_user(count: int) -> bool:
    mailbox = opened()
    mailbox.post_user_nowait(prompt())
    for number in range(count):
        mailbox.post_result(Letter(TimerFired(f"{number}")))
    got = [(await mailbox.receive()).input for _ in range(count)]
    return not any(isinstance(input_, PromptSent) for input_ in got)


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


@scene("runtime.inbox.mailbox.LETTERS_PER_PASS")
async def letters_without_a_pass(count: int) -> bool:
    mailbox, passes = opened(), Passes()
    for number in range(count):
        mailbox.post_result(Letter(TimerFired(f"{number}")))
    trio.lowlevel.add_instrument(passes)
    for _ in range(count):
        await mailbox.receive()
    trio.lowlevel.remove_instrument(passes)
    return passes.count == 0


class Hesitating:
    """A model that says a word, and another one when it is told to."""

    name = "scripted:hesitating"

    def __init__(self) -> None:
        self.goes_on = trio.Event()

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        emit(TextChunk("first"))
        await self.goes_on.wait()
        emit(TextChunk("second"))
        await trio.sleep_forever()
        return Response((Text("never"),))


@scene("runtime.shared.admission.HEARING")
async def subscribers_that_hear_a_delta_in_one_pass(count: int) -> bool:
    model, passes, heard = Hesitating(), Passes(), list[int]()

    async def listen(session: SessionHandle, *, task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe(types=[MessageDelta]) as events:
            task_status.started()
            async for envelope in events:
                if envelope.event == MessageDelta("second"):
                    heard.append(passes.count)

    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(SessionSpec(model=model))
        await session.prompt("go on")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(count):
            await nursery.start(listen, session)
        trio.lowlevel.add_instrument(passes)
        model.goes_on.set()
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(passes)
        nursery.cancel_scope.cancel()
    assert len(heard) == count
    return len(set(heard)) == 1


@scene("runtime.shared.admission.WIDTH")
async def sessions_that_enter_in_one_pass(count: int) -> bool:
    gate, admitted = Gate(), 0

    def admit() -> None:
        nonlocal admitted
        admitted += 1

    for _ in range(count):
        gate.enter(admit)
    return admitted == count


@scene("runtime.shared.admission.WIDTH")
async def sessions_that_are_admitted_in_a_later_pass(count: int) -> bool:
    gate, passes, admitted = Gate(), Passes(), list[int]()
    for _ in range(WIDTH + count):
        gate.enter(lambda: admitted.append(passes.count))
    trio.lowlevel.add_instrument(passes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(passes)
    assert admitted[:WIDTH] == [0] * WIDTH
    return len(set(admitted[WIDTH:])) == 1
