"""The page of decisions can be searched by area, and none of its entries is contradicted without saying so."""

from __future__ import annotations

from collections import Counter

from tests.docs.decisions import PAGE, decisions, index

EVERY = list(decisions())


def test_every_decision_stands_in_the_index_once() -> None:
    lines = [line for line in index() if line.startswith("- ")]
    assert sorted(lines) == sorted(one.line for one in EVERY)


def test_what_replaces_a_decision_is_a_decision_that_was_made_no_earlier() -> None:
    dates = {one.title: one.heading.partition(":")[0] for one in EVERY}
    replaced = [one for one in EVERY if one.replaced_by is not None]
    assert len(replaced) > 10
    for one in replaced:
        assert one.replaced_by in dates, f"“{one.title}” names “{one.replaced_by}”, which is no entry"
        assert dates[one.replaced_by] >= dates[one.title]


def test_what_marks_a_replaced_decision_is_read_from_it() -> None:
    assert PAGE.read_text(encoding="utf-8").count("\n(Replaced ") == sum(one.replaced_by is not None for one in EVERY)


def test_no_two_decisions_have_one_title() -> None:
    assert [title for title, times in Counter(one.title for one in EVERY).items() if times > 1] == []
