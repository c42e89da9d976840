"""The calls of a batch: found by id and status, and changed without touching the others."""

from __future__ import annotations

import random

from agentrail.core.vocabulary.tool_calls import Call, CallList, CallStatus
from tests.kit import EMPTY

STATUSES = list(CallStatus)


def some_calls(number: int) -> list[Call]:
    return [Call(f"c{index}", "look", EMPTY) for index in range(number)]


def agrees(ours: CallList, plain: list[Call]) -> None:
    assert len(ours) == len(plain)
    assert list(ours) == plain
    assert ours[-1] is plain[-1]
    assert ours[1:3] == tuple(plain[1:3])
    for status in STATUSES:
        calls = [call for call in plain if call.status is status]
        assert list(ours.among(status)) == calls
        assert ours.count(status) == len(calls)
    assert ours == CallList(plain)


def test_a_list_of_calls_is_what_a_plain_one_is_after_any_changes() -> None:
    for number in (1, 8, 200):
        plain = some_calls(number)
        ours = CallList(plain)
        seeded = random.Random(number)
        for _ in range(50):
            index = seeded.randrange(number)
            plain[index] = plain[index].but(status=seeded.choice(STATUSES), attempt=seeded.randrange(9))
            old_ours = list(ours)
            after = ours.put(plain[index])
            assert list(ours) == old_ours, "a change reaches the list before it"
            ours = after
            assert ours.find(plain[index].call_id) is plain[index]
            agrees(ours, plain)
        assert ours.find("another") is None


def test_a_list_of_no_calls_is_empty() -> None:
    assert list(CallList()) == []
    assert len(CallList()) == 0
    assert CallList().find("c0") is None


def test_a_list_tells_which_calls_have_changed_since_another_one() -> None:
    for number in (3, 200):
        plain = some_calls(number)
        old_call_list = CallList(plain)
        running = [plain[index].but(status=CallStatus.RUNNING) for index in (0, number - 1)]
        after = old_call_list.put(running[0]).put(running[1])
        assert after.changed_since(old_call_list) == ((plain[0], running[0]), (plain[-1], running[1]))
        assert old_call_list.changed_since(old_call_list) == ()
        assert after.changed_since(CallList(plain)) is None
        assert CallList(plain[:-1]).changed_since(old_call_list) is None
