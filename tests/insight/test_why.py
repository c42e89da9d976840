"""`why`: a sentence for each cell of the matrix and each rule by which answers are combined."""

from collections.abc import Sequence
from itertools import product

import pytest

from agentrail import Abort, Action, BlockTool, Continue, Emit, HoldTool, Intervene, ReplaceToolArgs
from agentrail.events import ApprovalResolved
from agentrail.hooks.actions import ACTIONS
from agentrail.insight import Account, Explanation, FoldingRule, why
from agentrail.insight.account import number_or_id
from agentrail.insight.explanations import explain
from agentrail.insight.hook_questions import questions
from agentrail.plugins import MATRIX, AnyPlugin
from tests.cells.bench import Bench, call, plug
from tests.cells.hook_cells import HOOK_CELLS, probe
from tests.cells.test_matrix import ANSWERS
from tests.each_case import check_each, each_case
from tests.insight.stories import records_of
from tests.kit import AbortSent, ApproveSent, RejectSent

CELLS = [(hook, action.kind) for hook in HOOK_CELLS for action in sorted(MATRIX[hook], key=str)]


def explained(hook: str, plugin: AnyPlugin) -> Explanation:
    """Return how the run of *hook* at its moment is explained."""
    bench, _ = HOOK_CELLS[hook].fire(plugin)
    *_, step = questions(records_of(bench))
    return next(explain(question) for question in step.questions if question.ruling.hook == hook)


@pytest.mark.parametrize("hook", HOOK_CELLS)
def test_each_cell_of_the_matrix_is_told_and_opposite_without_the_plugin(hook: str) -> None:
    check_each([cell for cell in CELLS if cell[0] == hook], _is_told_and_opposite)


def _is_told_and_opposite(hook: str, kind: str) -> None:
    explanation = explained(hook, probe(hook, ANSWERS[kind]))
    without = explained(hook, probe(hook, Continue()))
    (step,) = explanation.steps
    assert (step.plugin, step.sentence[:3]) == ("P", "`P`")
    assert [step.sentence for step in without.steps] == ["`P` let it pass"]
    assert without.rule is FoldingRule.ALL_PASSED
    if kind == "continue":
        assert explanation.sentence == without.sentence
    elif kind == "emit":
        assert (step.sentence, explanation.rule) == ("`P` published an event", FoldingRule.ALL_PASSED)
    else:
        assert explanation.rule is not FoldingRule.ALL_PASSED
        assert explanation.sentence != without.sentence
        assert step.answer is not None
        assert step.answer.kind == kind


def test_each_kind_of_answer_has_words() -> None:
    seen = {kind for _, kind in CELLS}
    assert seen == {action.kind for action in ACTIONS}


@each_case(product(HOOK_CELLS, [False, True]))
def test_a_plugin_that_breaks_is_told(hook: str, critical: bool) -> None:
    explanation = explained(hook, probe(hook, 3, critical=critical))
    (step,) = explanation.steps
    assert step.sentence.startswith("`P` broke: it answered a `int`")
    refuses = critical and hook not in ("session_end", "after_turn")
    assert step.decided is refuses
    assert (explanation.rule is FoldingRule.BROKE) is refuses


def called(*plugins: AnyPlugin, approve: bool = False, **args: str) -> tuple[Bench, str]:
    """Return a session in which `look` was called, and the id of the call."""
    bench = Bench(*plugins)
    bench.prompt()
    bench.answers("", call("look", **(args or {"path": "a"})))
    call_id = "c3"
    if approve:
        hold = bench.call(call_id).hold
        assert hold is not None
        bench.send(ApproveSent(hold.approval_id))
    return bench, call_id


def about(bench: Bench, call_id: str) -> Account:
    return why(records_of(bench), call_id)


def asked(account: Account, hook: str = "before_tool") -> Sequence[Explanation]:
    return [one.explanation for one in account.entries if one.explanation is not None and one.explanation.hook == hook]


def sentences(explanation: Explanation) -> list[str]:
    return [step.sentence for step in explanation.steps]


REPLACES: Action[object] = ReplaceToolArgs({"path": "b"})


def test_a_block_ends_the_run_and_drops_what_was_decided() -> None:
    bench, call_id = called(
        plug("A", priority=1, before_tool=REPLACES),
        plug("B", priority=2, before_tool=BlockTool("never")),
        plug("C", priority=3, before_tool=HoldTool("may it?")),
    )
    account = about(bench, call_id)
    (run,) = asked(account)
    assert run.rule is FoldingRule.BLOCK
    assert sentences(run) == [
        '`A` replaced the arguments by {"path":"b"}; that was dropped, because `B` blocked',
        "`B` blocked the call: never",
        "`C` was not asked: `B` had decided",
    ]
    assert account.sentence == "look was blocked by B: never"


def test_a_block_beats_a_hold_that_a_person_has_approved() -> None:
    bench, call_id = called(
        plug("A", priority=1, before_tool=HoldTool("may it?")),
        plug("B", priority=2, before_tool=BlockTool("never")),
        approve=True,
    )
    first, second = asked(about(bench, call_id))
    assert (first.rule, second.rule) == (FoldingRule.HOLD, FoldingRule.BLOCK)
    assert sentences(first) == ["`A` held the call for a person: may it?", "`B` was not asked: `A` had decided"]
    assert sentences(second) == ["`A` had been asked before the pause", "`B` blocked the call: never"]
    bench, call_id = called(plug("A", priority=1, before_tool=HoldTool("may it?")), approve=True)
    assert about(bench, call_id).sentence == "look was started"


def test_the_last_replacement_counts() -> None:
    bench, call_id = called(
        plug("A", priority=1, before_tool=REPLACES), plug("B", priority=2, before_tool=ReplaceToolArgs({"path": "c"}))
    )
    (run,) = asked(about(bench, call_id))
    assert run.rule is FoldingRule.LAST_REPLACEMENT
    assert sentences(run) == [
        '`A` replaced the arguments by {"path":"b"}, which `B` replaced again',
        '`B` replaced the arguments by {"path":"c"}',
    ]


def test_a_guard_is_asked_again_behind_a_replacement() -> None:
    def guard(hook: object, _state: object, _ctx: object) -> Action[object]:
        return BlockTool("not b") if getattr(hook, "args", {}).get("path") == "b" else Continue()

    bench, call_id = called(
        plug("Guard", priority=1, critical=True, before_tool=guard), plug("A", priority=2, before_tool=REPLACES)
    )
    (run,) = asked(about(bench, call_id))
    assert run.rule is FoldingRule.ASKED_AGAIN
    assert sentences(run) == [
        "`Guard` let it pass",
        '`A` replaced the arguments by {"path":"b"}; that was dropped, because `Guard` blocked',
        "`Guard` was asked again about the replaced arguments, and blocked the call: not b",
    ]
    bench, call_id = called(plug("Guard", priority=1, critical=True, before_tool=guard))
    assert about(bench, call_id).sentence == "look was started"


def test_a_guard_that_lets_the_replaced_arguments_pass_is_told_twice() -> None:
    bench, call_id = called(
        plug("Guard", priority=1, critical=True, before_tool=Continue()), plug("A", priority=2, before_tool=REPLACES)
    )
    (run,) = asked(about(bench, call_id))
    assert sentences(run)[-1] == "`Guard` was asked again and let it pass"
    assert run.rule is FoldingRule.LAST_REPLACEMENT


def test_a_guard_may_not_replace_the_final_arguments() -> None:
    def twice(hook: object, _state: object, _ctx: object) -> Action[object]:
        return ReplaceToolArgs({"path": "d"}) if getattr(hook, "final", False) else Continue()

    bench, call_id = called(
        plug("Guard", priority=1, critical=True, before_tool=twice), plug("A", priority=2, before_tool=REPLACES)
    )
    (run,) = asked(about(bench, call_id))
    assert run.rule is FoldingRule.REPLACED_AGAIN


def test_a_guard_that_breaks_when_it_is_asked_again_is_not_said_to_have_broken_before() -> None:
    def breaks(hook: object, _state: object, _ctx: object) -> Action[object]:
        if getattr(hook, "final", False):
            message = "oh"
            raise ValueError(message)
        return Continue()

    bench, call_id = called(
        plug("Guard", priority=1, critical=True, before_tool=breaks), plug("A", priority=2, before_tool=REPLACES)
    )
    (run,) = asked(about(bench, call_id))
    assert run.rule is FoldingRule.BROKE
    assert [step.decided for step in run.steps] == [False, False, True]
    assert sentences(run)[0] == "`Guard` let it pass"


def test_a_person_who_approved_is_told() -> None:
    bench, call_id = called(
        plug("Guard", priority=1, critical=True, before_tool=HoldTool("may it?")),
        plug("A", priority=2, before_tool=Emit("seen")),
        approve=True,
    )
    account = about(bench, call_id)
    assert [entry.sentence for entry in account.entries if entry.event is not None] == [
        "look waited for a person: Guard held it: may it?",
        "look was approved by somebody whose name is not stored",
        "look was started",
    ]


def test_it_is_told_by_whom_a_call_was_rejected() -> None:
    bench, call_id = called(plug("Guard", priority=1, before_tool=HoldTool("may it?")))
    hold = bench.call(call_id).hold
    assert hold is not None
    bench.send(RejectSent(hold.approval_id, "too dear"), by="ann")
    told = [entry.sentence for entry in about(bench, call_id).entries if isinstance(entry.event, ApprovalResolved)]
    assert told == ["look was rejected by ann: too dear"]


def test_a_family_that_was_approved_for_always_is_told() -> None:
    guard = plug("Guard", priority=1, before_tool=HoldTool("may it?", family="look a"))
    bench, call_id = called(guard)
    hold = bench.call(call_id).hold
    assert hold is not None
    bench.send(ApproveSent(hold.approval_id, always=True))
    bench.returns(call_id)
    bench.answers("", call("look", path="a"))
    later = bench.state.batch.calls[0].call_id if bench.state.batch is not None else ""
    (run,) = asked(about(bench, later))
    assert run.rule is FoldingRule.APPROVED_ALWAYS
    assert sentences(run) == [
        "`Guard` held the call for a person: may it?, but the family was approved for always",
    ]


def test_arguments_that_do_not_fit_are_told() -> None:
    bench, call_id = called(plug("A", before_tool=Continue()), bad="x")
    first, *_ = about(bench, call_id).entries
    assert first.explanation is not None
    assert first.explanation.rule is FoldingRule.SCHEMA
    assert "the arguments do not fit the schema of `look`: $.bad: not wanted" in first.sentence
    bench, call_id = called(plug("A", before_tool=Continue()))
    assert not asked(about(bench, call_id), "check")


def test_a_turn_is_told_without_its_calls() -> None:
    bench, _ = called(
        plug("A", before_prompt=Intervene("be brief"), before_tool=BlockTool("no"), before_finish=Intervene("go on"))
    )
    bench.answers("done")
    bench.answers("done again")
    bench.send(AbortSent("enough"))
    account = why(records_of(bench), 1)
    hooks = [entry.explanation.hook for entry in account.entries if entry.explanation is not None]
    assert hooks[:2] == ["before_prompt", "before_finish"]
    assert why(records_of(bench), 2).entries == ()
    assert why(records_of(bench), "end").sentence == account.sentence == "the turn was stopped (user): enough"


def test_an_abort_by_a_plugin_is_the_reason_of_the_end() -> None:
    bench = Bench(
        plug("A", priority=1, before_request=Intervene("x")), plug("B", priority=2, before_request=Abort("no money"))
    )
    bench.prompt()
    account = why(records_of(bench), "end")
    runs = [entry.explanation for entry in account.entries if entry.explanation is not None]
    assert [run.rule for run in runs] == [FoldingRule.ABORT]
    assert account.sentence == "the turn was stopped (plugin): B: no money"


def test_what_is_not_there_is_told() -> None:
    bench, _ = called()
    records = records_of(bench)
    assert why(records, "c99").sentence == "there is no call `c99` in these records"
    assert why(records, 7).sentence == "there is no turn 7 in these records"
    assert why(records, "end").sentence == "nothing has ended in these records"


def test_records_that_cannot_be_made_again_tell_their_answers_alone() -> None:
    bench, call_id = called(plug("B", before_tool=BlockTool("never")))
    records = [
        record.but(arrival=record.arrival.but(at=0, input=AbortSent())) if record.rulings[1:] else record
        for record in records_of(bench)
    ]
    (run,) = asked(about(bench, call_id))
    (alone,) = asked(why(records, call_id))
    assert sentences(alone) == ["`B` blocked the call: never"]
    assert run.rule is alone.rule is FoldingRule.BLOCK


def test_what_is_a_number_is_one_in_the_digits_of_this_script_alone() -> None:
    assert [number_or_id(text) for text in ("12", "٣", "c3", "end", "")] == [12, "٣", "c3", "end", ""]


def test_a_check_is_told_of_the_call_alone_whose_arguments_it_was_about() -> None:
    bench = Bench(plug("A", before_tool=Continue()))
    bench.prompt()
    bench.answers("", call("look", bad="x"), call("look", path="a"))
    assert [bool(asked(about(bench, call_id), "check")) for call_id in ("c3", "c4")] == [True, False]


def test_a_check_of_replaced_arguments_is_told_of_their_call() -> None:
    bench, call_id = called(plug("A", before_tool=ReplaceToolArgs({"bad": "x"})))
    assert asked(about(bench, call_id), "check")
