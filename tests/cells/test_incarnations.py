"""Ids that people decide by: a part of them is another one each time a session begins, is forked or comes back."""

from __future__ import annotations

from typing import TypeVar

from agentrail.cli.stored.steps_without_code import branched
from agentrail.core.machine.forking import branch
from agentrail.core.machine.in_doubt_calls import hint_about
from agentrail.core.vocabulary.commands import RespondSent
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned
from agentrail.errors import UnknownApproval
from agentrail.events import ApprovalRequired, ApprovalResolved, AskUser, Event
from agentrail.tools import AskPerson, Effect
from tests.cells.bench import Bench, call
from tests.cells.scenes import executing, holds, streaming, unknown
from tests.kit import DONE, ApproveSent, Refused, RejectSent, ToolReturned

E = TypeVar("E", bound=Event)

HOLDS = holds("edit", timeout=None)


def held() -> Bench:
    """Return a session of the incarnation `one`, whose call c3 is held."""
    bench = streaming(HOLDS)
    bench.state = bench.state.but(incarnation="one")
    bench.answers("", call("edit", path="a"))
    return bench


def events(bench: Bench, kind: type[E]) -> list[E]:
    return [event for event in bench.got[-1].events if isinstance(event, kind)]


def refusal(bench: Bench) -> object:
    answer = bench.got[-1].step.answer
    assert isinstance(answer, Refused)
    return answer.error


def back(bench: Bench, incarnation: str) -> None:
    bench.send(SessionReturned(1, bench.state.plugins, incarnation=incarnation))


def test_a_held_call_is_named_with_the_incarnation() -> None:
    bench = held()
    (required,) = events(bench, ApprovalRequired)
    assert required.approval_id == "s:a4-one"
    bench.send(ApproveSent("s:a4"))
    assert refusal(bench) == UnknownApproval.among("s:a4", ("s:a4-one",))
    bench.send(ApproveSent("s:a4-two"))
    assert refusal(bench) == UnknownApproval.among("s:a4-two", ("s:a4-one",))
    bench.send(ApproveSent("s:a4-one"))
    assert bench.got[-1].step.answer == DONE


def test_a_question_is_named_with_it_too() -> None:
    bench = executing(call("look", path="a"))
    bench.state = bench.state.but(incarnation="one")
    bench.send(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    (event,) = events(bench, AskUser)
    assert event.ref.endswith("-one")
    bench.send(RespondSent(event.ref.removesuffix("-one"), "this"))
    assert isinstance(refusal(bench), UnknownApproval)
    bench.send(RespondSent(event.ref, "this"))
    assert bench.got[-1].step.answer == DONE


def test_what_was_shown_before_a_restart_decides_after_it_and_later_ids_are_others() -> None:
    bench = held()
    back(bench, "two")
    assert bench.state.incarnation == "two"
    bench.send(RejectSent("s:a4-one", auto_resume=True))
    assert bench.got[-1].step.answer == DONE
    bench.answers("", call("edit", path="b"))
    (required,) = events(bench, ApprovalRequired)
    assert required.approval_id.endswith("-two")


def test_a_fork_asks_by_ids_of_its_own() -> None:
    """Also a fork of the same name, made anew of the same record."""
    bench = held()
    bench.state = bench.state.but(in_doubt_calls=(unknown("c0", "edit").but(incarnation="one"),))
    ids = set[str]()
    for incarnation in ("first", "second"):
        fork = Bench(HOLDS, opened=False)
        fork.state = branch(bench.state, "f")
        fork.send(SessionBranched("s", 1, attached_plugins=bench.state.plugins, incarnation=incarnation))
        (required,) = events(fork, ApprovalRequired)
        ids.add(required.approval_id)
        fork.send(ApproveSent("s:a4-one"))
        assert isinstance(refusal(fork), UnknownApproval)
        for wrong in ("f:c0", "f:c0-one", "s:c0-one"):
            fork.send(ApproveSent(wrong))
            assert isinstance(refusal(fork), UnknownApproval)
        fork.send(ApproveSent(f"f:c0-{incarnation}"))
        assert fork.state.in_doubt_calls == ()
    assert len(ids) == 2


def test_a_doubt_ends_by_the_id_with_the_incarnation_in_which_it_arose() -> None:
    bench = streaming()
    doubt = unknown("c0", "edit").but(incarnation="one")
    assert "`c0-one`" in hint_about(doubt)
    bench.state = bench.state.but(in_doubt_calls=(doubt,), incarnation="two")
    for wrong in ("s:c0", "s:c0-two"):
        bench.send(ApproveSent(wrong))
        assert isinstance(refusal(bench), UnknownApproval)
    bench.send(ApproveSent("s:c0"))
    assert refusal(bench) == UnknownApproval.among("s:c0", ("s:c0-one",))
    bench.send(ApproveSent("s:c0-one"))
    assert events(bench, ApprovalResolved) == [ApprovalResolved("s:c0-one", "c0", "edit", "cleared")]
    assert bench.state.in_doubt_calls == ()


def test_a_session_of_an_older_version_is_decided_by_the_ids_that_it_has() -> None:
    bench = streaming(HOLDS)
    bench.answers("", call("edit", path="a"))
    back(bench, "two")
    bench.send(ApproveSent("s:a4"))
    assert bench.got[-1].step.answer == DONE


def test_a_fork_that_no_supervisor_makes_asks_by_ids_of_its_own() -> None:
    """As `agentrail sessions fork` makes it: anew of the same record, it has other ids."""
    bench = held()
    records = [branched(bench.state, 1, (), "f", 5) for _ in range(2)]
    ids = {
        envelope.event.approval_id
        for record in records
        for envelope in record.events
        if isinstance(envelope.event, ApprovalRequired)
    }
    assert len(ids) == 2
