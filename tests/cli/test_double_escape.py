"""Which Escape is meant as the second one."""

from __future__ import annotations

from agentrail.cli.talk.live.double_escape import DoubleEscape


def seconds(*escapes: tuple[float, bool], busy: float | None = None, other: float | None = None) -> list[float]:
    """Return when an Escape was taken for the second one: each with its time, and whether a pause was before it."""
    double = DoubleEscape()
    if busy is not None:
        double.note_busy(busy)
    taken = list[float]()
    for now, is_after_pause in escapes:
        if other is not None and other < now:
            double.note_key()
            other = None
        double.note_key()
        if double.press(now, is_after_pause=is_after_pause):
            taken.append(now)
    return taken


def test_two_in_a_row_after_a_pause_are_meant() -> None:
    assert seconds((5.0, True), (5.3, False)) == [5.3]
    assert seconds((5.0, True), (5.9, True)) == [5.9]
    assert seconds((5.0, True), (5.3, False), (5.6, False)) == [5.3], "a third one is none"


def test_those_of_a_hurried_hand_are_not() -> None:
    assert seconds((5.0, True), (6.1, True)) == [], "too late"
    assert seconds((5.0, False), (5.3, False), (5.6, False), (5.9, False)) == [], "no pause before"
    assert seconds((5.0, True), (5.3, False), busy=4.8) == [], "it was to stop what ran"
    assert seconds((5.0, True), (5.3, False), other=5.1) == [], "another key came in between"
