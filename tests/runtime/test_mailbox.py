from collections.abc import AsyncIterator
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.core.vocabulary.commands import Answer, ResultSent, ResumeSent, SuspendSent, WithdrawSent
from agentrail.core.vocabulary.inputs import CallsEnded, ToolRaised, ToolStopped
from agentrail.errors import JournalUnavailable, MailboxFull, SessionNotAlive
from agentrail.models import Text
from agentrail.runtime.access.sending import letter as made_of
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import LETTERS_PER_PASS, MAX_BYTES, MAX_MESSAGES, PATIENCE, Mailbox
from agentrail.runtime.inbox.replies import relieve
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.tools import ok
from tests.kit import (
    DONE,
    EMPTY,
    AbortSent,
    AnyInput,
    ApproveSent,
    PromptSent,
    Refused,
    SteerSent,
    StopSent,
    TimerFired,
    ToolReturned,
    freeze_object,
)


def test_the_arguments_that_a_person_gives_with_an_approval_count_for_its_size() -> None:
    sizes = [
        made_of(ApproveSent("c1", args=args), None).size
        for args in (None, freeze_object({}), freeze_object({"text": "x" * 1000}))
    ]
    assert sizes[0] < sizes[1] < sizes[2] - 1000


def test_the_details_of_a_result_from_elsewhere_count_for_its_size() -> None:
    details = [freeze_object({"a": "x" * count}) for count in (1, 10_000)]
    small, large = [made_of(ResultSent("c1", ok("x", each)), None).size for each in details]
    assert small < large - 9_000


def test_the_schema_that_an_answer_has_to_fit_counts_for_the_size_of_a_prompt() -> None:
    sizes = [
        made_of(PromptSent((Text(text),), returns=returns), None).size
        for text, returns in (("", EMPTY), ("x" * 1000, EMPTY), ("x" * 1000, freeze_object({"title": "x" * 1000})))
    ]
    assert sizes[0] + 1000 <= sizes[1] < sizes[2] - 1000


STOPPED: Final = SessionNotAlive("s", "stopped")
GONE: Final = Refused.of(STOPPED)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with trio.open_nursery() as nursery:
        new_gate = Gate()
        nursery.start_soon(new_gate.run)
        yield new_gate
        nursery.cancel_scope.cancel()


@pytest.fixture
def mailbox(gate: Gate) -> Mailbox:
    return Mailbox("s", gate)


def prompt(text: str = "hi", size: int = 1) -> Letter:
    return Letter(PromptSent((Text(text),)), answer=Slot(), size=size)


def cleared(text: str = "hi") -> PromptSent:
    return PromptSent((Text(text),), cleared=True)


def result(name: str = "t") -> Letter:
    return Letter(TimerFired(name))


async def take(mailbox: Mailbox, count: int) -> list[AnyInput]:
    """Receive letters, and answer them; return their inputs."""
    with trio.fail_after(5):
        letters = [await mailbox.receive() for _ in range(count)]
    for letter in letters:
        letter.settle(DONE)
    return [letter.input for letter in letters]


def waiting(mailbox: Mailbox) -> int:
    return mailbox.lengths[2]


async def test_control_comes_before_results_and_results_before_the_user(mailbox: Mailbox) -> None:
    mailbox.post_user_nowait(prompt("user"))
    mailbox.post_result(result("result"))
    mailbox.post_control(Letter(StopSent()))
    assert await take(mailbox, 3) == [StopSent(), TimerFired("result"), PromptSent((Text("user"),))]


async def test_each_lane_is_first_in_first_out(mailbox: Mailbox) -> None:
    for number in range(10):
        mailbox.post_user_nowait(prompt(f"u{number}"))
        mailbox.post_result(result(f"r{number}"))
    got = await take(mailbox, 20)
    assert got == [TimerFired(f"r{n}") for n in range(10)] + [PromptSent((Text(f"u{n}"),)) for n in range(10)]


async def test_a_reader_that_waits_is_woken_by_any_lane(mailbox: Mailbox) -> None:
    got: list[AnyInput] = []

    async def read() -> None:
        while len(got) < 3:
            got.append((await mailbox.receive()).input)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for letter, post in (
            (prompt(), mailbox.post_user_nowait),
            (result(), mailbox.post_result),
            (Letter(StopSent()), mailbox.post_control),
        ):
            await trio.testing.wait_all_tasks_blocked()
            post(letter)
    assert got == [PromptSent((Text("hi"),)), TimerFired("t"), StopSent()]


async def test_after_64_higher_messages_one_of_the_user_is_served(mailbox: Mailbox) -> None:
    for number in range(3 * PATIENCE):
        mailbox.post_result(result(str(number)))
    for number in range(2):
        mailbox.post_user_nowait(prompt(str(number)))
    got = await take(mailbox, 3 * PATIENCE + 2)
    assert [index for index, input_ in enumerate(got) if isinstance(input_, PromptSent)] == [PATIENCE, 2 * PATIENCE + 1]


async def test_messages_that_nobody_waited_behind_do_not_count(mailbox: Mailbox) -> None:
    for number in range(2 * PATIENCE):
        mailbox.post_result(result(str(number)))
    await take(mailbox, 2 * PATIENCE)
    mailbox.post_user_nowait(prompt())
    mailbox.post_control(Letter(AbortSent()))
    assert await take(mailbox, 2) == [AbortSent(), PromptSent((Text("hi"),))]


async def test_the_65th_message_is_refused_or_waits(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt())
    with pytest.raises(MailboxFull) as refused:
        mailbox.post_user_nowait(prompt())
    assert refused.value.args == ("s", MAX_MESSAGES, MAX_MESSAGES)
    with trio.move_on_after(1) as scope:
        await mailbox.send(prompt())
    assert scope.cancelled_caught
    assert waiting(mailbox) == MAX_MESSAGES


async def test_bytes_are_bounded_too(mailbox: Mailbox) -> None:
    mailbox.post_user_nowait(prompt("a", MAX_BYTES - 1))
    mailbox.post_user_nowait(prompt("b", 1))
    with pytest.raises(MailboxFull):
        mailbox.post_user_nowait(prompt("c", 1))


async def test_one_message_larger_than_the_lane_passes_when_the_lane_is_empty(mailbox: Mailbox) -> None:
    mailbox.post_user_nowait(prompt("large", 2 * MAX_BYTES))
    with pytest.raises(MailboxFull):
        mailbox.post_user_nowait(prompt("small", 1))


async def test_senders_that_wait_get_room_in_the_order_they_came(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt("first"))
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(mailbox.send, prompt(str(number)))
            await trio.testing.wait_all_tasks_blocked()
        got = await take(mailbox, MAX_MESSAGES + 5)
    assert got[MAX_MESSAGES:] == [PromptSent((Text(str(n)),)) for n in range(5)]


async def test_a_large_message_keeps_its_place_among_small_ones(mailbox: Mailbox) -> None:
    for _ in range(3):
        mailbox.post_user_nowait(prompt("first", MAX_BYTES // 4))
    async with trio.open_nursery() as nursery:
        for name, size in (("large", MAX_BYTES // 2 + 1), ("small", 1)):
            nursery.start_soon(mailbox.send, prompt(name, size))
            await trio.testing.wait_all_tasks_blocked()
        assert waiting(mailbox) == 3
        with pytest.raises(MailboxFull):
            mailbox.post_user_nowait(prompt("pushy", 1))
        got = await take(mailbox, 5)
    assert got[3:] == [PromptSent((Text("large"),)), PromptSent((Text("small"),))]


async def test_a_sender_that_gives_up_leaves_its_place_to_the_next(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt("first"))
    given_up = prompt("given up")
    async with trio.open_nursery() as nursery:

        async def impatient() -> None:
            with trio.move_on_after(1):
                await mailbox.send(given_up)

        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(mailbox.send, prompt("patient"))
        await trio.sleep(2)
        got = await take(mailbox, MAX_MESSAGES + 1)
    assert got[MAX_MESSAGES] == PromptSent((Text("patient"),))


async def test_a_sender_that_gives_up_lets_in_those_behind_it_for_whom_there_is_room(mailbox: Mailbox) -> None:
    mailbox.post_user_nowait(prompt("first", size=MAX_BYTES - 10))
    async with trio.open_nursery() as nursery:

        async def impatient() -> None:
            with trio.move_on_after(1):
                await mailbox.send(prompt("given up", size=100))

        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(mailbox.send, prompt("small", size=1))
        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.lengths == (0, 0, 1)
        await trio.sleep(2)
        assert mailbox.lengths == (0, 0, 2)
        await take(mailbox, 2)


async def test_a_user_message_waits_at_the_gate_and_control_passes_it() -> None:
    closed = Gate()  # nobody runs it, so that it opens for the first 8 only
    for _ in range(8):
        closed.enter(lambda: None)
    mailbox = Mailbox("s", closed)
    mailbox.post_user_nowait(prompt())
    with trio.move_on_after(1) as scope:
        await mailbox.receive()
    assert scope.cancelled_caught
    mailbox.post_control(Letter(StopSent()))
    mailbox.post_result(result())
    assert await take(mailbox, 2) == [StopSent(), TimerFired("t")]


async def test_each_user_message_waits_at_the_gate_also_behind_one_that_was_admitted() -> None:
    mailbox = Mailbox("s", Gate(1))  # nobody runs it, so that it opens once
    for text in ("first", "second"):
        mailbox.post_user_nowait(prompt(text))
    assert await take(mailbox, 1) == [PromptSent((Text("first"),))]
    with trio.move_on_after(1) as scope:
        await mailbox.receive()
    assert scope.cancelled_caught


async def test_a_cancelled_reader_loses_nothing(mailbox: Mailbox) -> None:
    with trio.move_on_after(1):
        await mailbox.receive()
    mailbox.post_result(result())
    assert await take(mailbox, 1) == [TimerFired("t")]


async def test_an_equal_control_message_that_waits_serves_for_both(mailbox: Mailbox) -> None:
    letters = [Letter(AbortSent(), answer=Slot()) for _ in range(2)]
    for letter in letters:
        mailbox.post_control(letter)
    assert mailbox.lengths[0] == 1
    (await mailbox.receive()).settle(DONE)
    assert [await letter.answer.wait() for letter in letters] == [DONE, DONE]


async def test_control_messages_with_ids_of_their_own_are_kept_apart(mailbox: Mailbox) -> None:
    for command in (None, "a", "b", "a", None):
        mailbox.post_control(Letter(AbortSent(), command=command))
    got = [(await mailbox.receive()).command for _ in range(mailbox.lengths[0])]
    assert got == [None, "a", "b"]


async def test_approvals_with_a_number_and_with_true_are_two_letters(mailbox: Mailbox) -> None:
    approvals = [ApproveSent("h1", args=freeze_object({"amount": amount})) for amount in (1, True, 1.0, 1.0)]
    for approval in approvals:
        mailbox.post_control(Letter(approval))
    assert await take(mailbox, mailbox.lengths[0]) == approvals[:3]


async def test_an_abort_that_clears_the_queue_has_prompts_handled_first_that_came_before_it(mailbox: Mailbox) -> None:
    mailbox.post_user_nowait(prompt("1"))
    mailbox.post_user_nowait(Letter(WithdrawSent("p1"), size=1))
    mailbox.post_user_nowait(prompt("2"))
    mailbox.post_control(Letter(AbortSent(clear_queue=True)))
    mailbox.post_user_nowait(prompt("3"))
    mailbox.suspend()
    first = await mailbox.receive()
    assert first.input == cleared("1")
    mailbox.put_back(first)
    assert await take(mailbox, 3) == [cleared("1"), cleared("2"), AbortSent(clear_queue=True)]
    mailbox.resume()
    assert await take(mailbox, 2) == [WithdrawSent("p1"), PromptSent((Text("3"),))]
    assert mailbox._bytes == 0  # noqa: SLF001 - what was taken makes room


async def test_an_abort_that_joins_another_clears_what_came_before_itself(mailbox: Mailbox) -> None:
    mailbox.post_control(Letter(AbortSent(clear_queue=True)))
    mailbox.post_user_nowait(prompt("between"))
    mailbox.post_control(Letter(AbortSent(clear_queue=True)))
    assert await take(mailbox, 2) == [cleared("between"), AbortSent(clear_queue=True)]


async def test_senders_that_leave_in_the_pass_in_which_they_are_let_in_have_sent(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt())
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(mailbox.send, prompt("waits"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        abort = mailbox.post_control(Letter(AbortSent(clear_queue=True)))
        abort.number = 3
        assert len(await take(mailbox, 3)) == 3
    assert waiting(mailbox) == MAX_MESSAGES
    assert (await take(mailbox, MAX_MESSAGES))[-2:] == [PromptSent((Text("waits"),))] * 2


async def test_senders_that_leave_in_the_pass_in_which_it_closes_are_answered(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt())
    slot: Slot[Answer] = Slot()
    late = Letter(PromptSent((Text("waits"),)), answer=slot)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.send, late)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        mailbox.close(SessionNotAlive("s", "gone"))
    assert isinstance(await slot.wait(), Refused)


async def test_taking_back_makes_room_for_those_who_wait(mailbox: Mailbox) -> None:
    for _ in range(MAX_MESSAGES):
        mailbox.post_user_nowait(prompt())
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(mailbox.send, prompt("late"))
        await trio.testing.wait_all_tasks_blocked()
        mailbox.post_control(Letter(AbortSent(clear_queue=True)))
        taken = await take(mailbox, MAX_MESSAGES + 1)
        assert taken == [*([cleared()] * MAX_MESSAGES), AbortSent(clear_queue=True)]
        nursery.cancel_scope.cancel()
    assert waiting(mailbox) == 3


async def test_closing_answers_everything_that_waits_and_everything_that_comes(mailbox: Mailbox) -> None:
    slots: list[Slot[Answer]] = [Slot() for _ in range(MAX_MESSAGES + 4)]
    mailbox.post_control(Letter(StopSent(), answer=slots[-1]))
    mailbox.post_result(Letter(TimerFired("t"), answer=slots[-2]))
    for slot in slots[:MAX_MESSAGES]:
        mailbox.post_user_nowait(Letter(PromptSent(()), answer=slot))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.send, Letter(PromptSent(()), answer=slots[-3]))
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close(STOPPED)
    await mailbox.send(Letter(PromptSent(()), answer=slots[-4]))
    with trio.fail_after(1):
        assert [await slot.wait() for slot in slots] == [GONE] * len(slots)
    late: Slot[Answer] = Slot()
    mailbox.post_control(Letter(StopSent(), answer=late))
    assert await late.wait() == GONE


async def test_a_letter_is_not_lost_behind_one_that_was_admitted_and_taken_back(mailbox: Mailbox) -> None:
    got: list[AnyInput] = []

    async def read() -> None:
        got.extend(await take(mailbox, 3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.post_user_nowait(prompt("dropped"))
        mailbox.post_control(Letter(AbortSent(clear_queue=True)))
        await trio.testing.wait_all_tasks_blocked()
        mailbox.post_user_nowait(prompt("next"))
        await trio.testing.wait_all_tasks_blocked()
        assert got == [cleared("dropped"), AbortSent(clear_queue=True), PromptSent((Text("next"),))]


async def test_a_letter_is_not_lost_behind_one_that_was_served_while_it_waited_at_the_gate() -> None:
    gate = Gate(1)
    mailbox = Mailbox("s", gate)
    gate.enter(lambda: None)
    for _ in range(PATIENCE):
        mailbox.post_result(result())
    mailbox.post_user_nowait(prompt("first"))
    mailbox._ask_gate()  # noqa: SLF001 - as a reader does that finds nothing else
    assert PromptSent((Text("first"),)) in await take(mailbox, PATIENCE + 1)
    got: list[AnyInput] = []

    async def read() -> None:
        got.append((await mailbox.receive()).input)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.post_user_nowait(prompt("second"))
        await trio.testing.wait_all_tasks_blocked()
        assert got == [PromptSent((Text("second"),))]
        nursery.cancel_scope.cancel()


# Lanes are bounded


async def answers(letters: list[Letter]) -> list[Answer]:
    with trio.fail_after(1):
        return [await letter.answer.wait() for letter in letters]


async def test_three_thousand_aborts_with_reasons_of_their_own_are_one_that_answers_all(mailbox: Mailbox) -> None:
    kills = ("none", "killable", "all")
    letters = [
        Letter(AbortSent(f"{number}", kills[number % 3], clear_queue=number == 7), answer=Slot())
        for number in range(3000)
    ]
    for letter_ in letters:
        mailbox.post_control(letter_)
    assert mailbox.lengths[0] == 1
    letter = await mailbox.receive()
    assert letter.input == AbortSent("0", "all", clear_queue=True)
    letter.settle(DONE)
    assert await answers(letters) == [DONE] * 3000


async def test_who_aborts_once_more_is_not_answered_for_one_that_was_answered_early(mailbox: Mailbox) -> None:
    first, second = (Letter(AbortSent(), answer=Slot()) for _ in range(2))
    mailbox.post_control(first)
    relieve("s", mailbox.control, JournalUnavailable("no space"))
    assert await first.answer.wait() == DONE
    assert mailbox.post_control(second) is first
    assert not second.answer.settled
    mailbox.close(STOPPED)
    assert await second.answer.wait() == GONE


async def test_what_is_dropped_came_before_the_last_abort_that_clears_the_queue(mailbox: Mailbox) -> None:
    mailbox.post_control(Letter(AbortSent(clear_queue=True)))
    mailbox.post_user_nowait(prompt("between"))
    mailbox.post_control(Letter(AbortSent("another")))
    abort = await mailbox.receive()
    assert abort.input == AbortSent("another", clear_queue=True)
    mailbox.put_back(abort)
    mailbox.post_control(Letter(AbortSent("a third", clear_queue=True)))
    assert (await mailbox.receive()).input == cleared("between")


async def test_an_abort_with_an_id_is_left_as_it_is_and_serves_for_weaker_ones(mailbox: Mailbox) -> None:
    own_value = mailbox.post_control(Letter(AbortSent("own", "killable"), command="a"))
    assert mailbox.post_control(Letter(AbortSent("weak", "none"))) is own_value
    strong = mailbox.post_control(Letter(AbortSent("strong", "all")))
    assert strong is not own_value
    assert mailbox.post_control(Letter(AbortSent("also", "all"), command="a")) not in {own_value, strong}  # a conflict
    assert await take(mailbox, 3) == [
        AbortSent("own", "killable"),
        AbortSent("strong", "all"),
        AbortSent("also", "all"),
    ]


async def test_an_abort_that_leaves_the_queue_does_not_serve_for_one_that_clears_it(mailbox: Mailbox) -> None:
    mailbox.post_control(Letter(AbortSent("own", "all"), command="a"))
    clearing = Letter(AbortSent("own", "killable", clear_queue=True))
    assert mailbox.post_control(clearing) is clearing


async def test_a_stop_that_waits_serves_for_nothing_else(mailbox: Mailbox) -> None:
    mailbox.post_control(Letter(StopSent("enough")))
    suspending = Letter(SuspendSent())
    assert mailbox.post_control(suspending) is suspending
    assert mailbox.lengths == (2, 0, 0)


async def test_any_stop_serves_for_all(mailbox: Mailbox) -> None:
    first = mailbox.post_control(Letter(StopSent("first"), command="a"))
    for reason in ("second", "third"):
        assert mailbox.post_control(Letter(StopSent(reason))) is first
    assert mailbox.lengths[0] == 1


async def test_control_with_ids_is_bounded_and_an_abort_without_one_is_always_taken(mailbox: Mailbox) -> None:
    for number in range(MAX_MESSAGES):
        mailbox.post_control(Letter(AbortSent(), command=f"{number}"))
    for letter in (Letter(AbortSent(), command="more"), Letter(SuspendSent())):
        with pytest.raises(MailboxFull, match=f"{MAX_MESSAGES} messages"):
            mailbox.post_control(letter)
    for number in range(100):
        mailbox.post_control(Letter(AbortSent(f"{number}", "all")))
        mailbox.post_control(Letter(StopSent(f"{number}")))
    assert mailbox.lengths[0] == MAX_MESSAGES + 2


async def test_who_suspends_behind_a_resume_is_not_served_by_an_earlier_suspend(mailbox: Mailbox) -> None:
    for value in (SuspendSent(), SuspendSent(), ResumeSent(), SuspendSent()):
        mailbox.post_control(Letter(value))
    assert await take(mailbox, 3) == [SuspendSent(), ResumeSent(), SuspendSent()]


async def test_what_callers_say_beside_the_results_is_bounded_and_results_are_not(mailbox: Mailbox) -> None:
    for number in range(2 * MAX_MESSAGES):
        mailbox.post_result(result(f"{number}"))
    for _ in range(MAX_MESSAGES):
        mailbox.post_steering(Letter(SteerSent("left"), answer=Slot()))
    with pytest.raises(MailboxFull) as refused:
        mailbox.post_steering(Letter(SteerSent("left"), answer=Slot()))
    assert refused.value.args == ("s", MAX_MESSAGES, 0)
    mailbox.post_result(result("the last one"))
    assert mailbox.lengths[1] == 3 * MAX_MESSAGES + 1


async def test_what_callers_say_beside_the_results_is_bounded_in_bytes_too(mailbox: Mailbox) -> None:
    mailbox.post_steering(Letter(SteerSent("long"), answer=Slot(), size=2 * MAX_BYTES))
    with pytest.raises(MailboxFull):
        mailbox.post_steering(Letter(SteerSent("short"), answer=Slot(), size=1))
    await mailbox.receive()
    mailbox.post_steering(Letter(SteerSent("short"), answer=Slot(), size=1))


async def test_ends_of_calls_that_follow_one_another_are_one_letter(mailbox: Mailbox) -> None:
    ends = ToolReturned("c1", 1, ok("one")), ToolRaised("c2", 1, "Oops"), ToolStopped("c3", 1)
    for value in (*ends, TimerFired("t"), ends[0], TimerFired("u"), *ends[1:]):
        mailbox.post(value)
    assert await take(mailbox, 5) == [
        CallsEnded(ends),
        TimerFired("t"),
        ends[0],
        TimerFired("u"),
        CallsEnded(ends[1:]),
    ]
    assert mailbox.is_empty


async def test_as_many_ends_of_calls_are_one_letter_as_are_handled_in_a_pass(mailbox: Mailbox) -> None:
    ends = [ToolStopped(f"c{number}", 1) for number in range(2 * LETTERS_PER_PASS + 1)]
    for end in ends:
        mailbox.post(end)
    assert await take(mailbox, 3) == [
        CallsEnded(tuple(ends[:LETTERS_PER_PASS])),
        CallsEnded(tuple(ends[LETTERS_PER_PASS:-1])),
        ends[-1],
    ]


async def test_other_tasks_run_before_the_letter_after_a_full_one(mailbox: Mailbox) -> None:
    for number in range(LETTERS_PER_PASS + 1):
        mailbox.post(ToolStopped(f"c{number}", 1))
    with trio.testing.assert_no_checkpoints():
        await mailbox.receive()
    with trio.testing.assert_checkpoints():
        await mailbox.receive()


async def test_ends_of_calls_that_are_put_back_come_one_by_one_in_their_order(mailbox: Mailbox) -> None:
    ends = [ToolStopped(f"c{number}", 1) for number in range(4)]
    for end in ends[:3]:
        mailbox.post(end)
    first = await mailbox.receive()
    assert first.number == 1
    mailbox.put_back(first)
    mailbox.post(ends[3])
    letters = [await mailbox.receive() for _ in ends]
    assert [letter.input for letter in letters] == ends
    assert [letter.number for letter in letters] == [1, 2, 3, 4]
    for end in ends[:2]:
        mailbox.post(end)
    assert await take(mailbox, 1) == [CallsEnded(tuple(ends[:2]))]


async def test_ends_of_calls_wait_for_their_session_to_resume(mailbox: Mailbox) -> None:
    ends = ToolStopped("c1", 1), ToolStopped("c2", 1)
    mailbox.suspend()
    for end in ends:
        mailbox.post(end)
    mailbox.post_control(Letter(ResumeSent()))
    assert await take(mailbox, 1) == [ResumeSent()]
    mailbox.resume()
    assert await take(mailbox, 1) == [CallsEnded(ends)]
