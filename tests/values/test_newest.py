"""`Newest` keeps the entries that were set last, and forgets the others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.values.newest import Newest

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=12)


@settings(max_examples=40)
@given(most=st.integers(1, 4), entries=ENTRIES)
def test_the_entries_set_last_are_there_in_this_order(most: int, entries: list[tuple[int, int]]) -> None:
    """However often a key is set, it counts once, at its last time, and with its last value."""
    newest = Newest[int, int](most)
    last_first: dict[int, int] = {}
    for key, value in entries:
        newest[key] = value
    for key, value in reversed(entries):
        last_first.setdefault(key, value)
    assert list(newest.items()) == list(last_first.items())[:most][::-1]


def test_looking_at_an_entry_keeps_it_no_longer() -> None:
    """Only who sets an entry makes it new."""
    newest = Newest[str, int](2)
    newest["a"], newest["b"] = 1, 2
    assert newest["a"] == newest.get("a") == 1
    newest["c"] = 3
    assert list(newest) == ["b", "c"]
