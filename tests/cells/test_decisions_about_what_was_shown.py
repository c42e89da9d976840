"""A decision that carries the digest of what was shown is refused if that is not what is held."""

from __future__ import annotations

import pytest

from agentrail.core.vocabulary.tool_calls import digest_of
from agentrail.errors import NotAsShown
from agentrail.events import ApprovalRequired
from agentrail.models import FrozenObject, JsonObject
from tests.cells.bench import Bench, call
from tests.cells.scenes import holds, path, streaming
from tests.kit import DONE, ApproveSent, Refused, RejectSent


def held() -> tuple[Bench, str]:
    """Return a session that holds a call of `edit` as s:a4, and the digest that its event has."""
    bench = streaming(holds("edit", timeout=None, family="edits"))
    bench.answers("", call("edit", path="a"))
    (required,) = [event for event in bench.got[-1].events if isinstance(event, ApprovalRequired)]
    return bench, required.digest


def holds_now(bench: Bench, **changes: object) -> None:
    """Have another call held under the same id, as a session that was imported under its name may have it."""
    batch = bench.state.batch
    assert batch is not None
    (held_call,) = batch.calls
    assert held_call.hold is not None
    name = changes.pop("name", held_call.name)
    changed = held_call.but(name=name, hold=held_call.hold.but(**changes))
    bench.state = bench.state.but(batch=batch.but(calls=batch.calls.put(changed)))


@pytest.mark.parametrize("decision", [ApproveSent, RejectSent])
@pytest.mark.parametrize("digest", ["as shown", ""])
def test_what_is_held_as_it_was_shown_is_decided(decision: type[ApproveSent | RejectSent], digest: str) -> None:
    bench, visible = held()
    bench.send(decision("s:a4", digest=visible if digest else ""))
    assert bench.got[-1].step.answer == DONE


@pytest.mark.parametrize(
    "changes",
    [{"args": path("b")}, {"args": FrozenObject()}, {"family": "other"}, {"family": None}, {"name": "look"}],
    ids=["arguments", "none", "family", "no family", "tool"],
)
@pytest.mark.parametrize("decision", [ApproveSent, RejectSent])
def test_another_call_under_the_same_id_is_not(
    decision: type[ApproveSent | RejectSent], changes: dict[str, object]
) -> None:
    bench, visible = held()
    holds_now(bench, **changes)
    verb, tool = ("approve", "reject")[decision is RejectSent], changes.get("name", "edit")
    refusal = Refused.of(NotAsShown("s:a4", verb, str(tool)))
    bench.send(decision("s:a4", digest=visible)).expect_only(answer=refusal)


def test_arguments_that_are_edited_go_with_the_digest_of_those_that_were_shown() -> None:
    bench, visible = held()
    bench.send(ApproveSent("s:a4", path("b"), digest=visible))
    assert bench.got[-1].step.answer == DONE


@pytest.mark.parametrize("text", ["0" * 32, "[redacted]", "é", "\ud800"])
def test_a_digest_of_nothing_is_refused(text: str) -> None:
    bench, _ = held()
    bench.send(ApproveSent("s:a4", digest=text)).expect_only(answer=Refused.of(NotAsShown("s:a4", "approve", "edit")))


def test_digests_of_what_looks_alike_differ() -> None:
    bench, _ = held()
    batch = bench.state.batch
    assert batch is not None
    (hold,) = [held_call.hold for held_call in batch.calls if held_call.hold is not None]
    args: list[JsonObject] = [FrozenObject(n=value) for value in (1, 1.0, True, "1", None, [1], "\ud800")]
    alike = [hold.but(args=arg) for arg in args]
    alike += [hold.but(approval_id="s:a5"), hold.but(family=None), hold.but(family="")]
    digests = [digest_of(item, tool) for item in (hold, *alike) for tool in ("edit", "look")]
    assert len({*digests}) == len(digests)
