"""The page of the interface has every route, body, query, view and kind of problem."""

from agentrail.api import bodies, views
from agentrail.api.openapi import classes_below
from agentrail.api.operation_table import ROUTES
from agentrail.api.problems import ROWS, code_of
from docs.printing import http_page
from tests.docs.sources import SOURCE


def test_each_route_has_a_line() -> None:
    lines = http_page.routes()[2:]
    assert [line.split("`")[1] for line in lines] == [f"{route.method} {route.path}" for route in ROUTES]


def test_each_kind_of_problem_has_a_line_and_each_line_says_what_to_do() -> None:
    lines = http_page.problems()[2:]
    assert {line.split("`")[1] for line in lines} == {code_of(row.told_as or kind) for kind, row in ROWS.items()}
    assert [line for line in lines if line.endswith("| |")] == []


def test_each_class_has_a_section_in_which_all_fields_are_described() -> None:
    for base, printed in (
        (bodies.CallBody, http_page.bodies(SOURCE)),
        (bodies.Query, http_page.queries(SOURCE)),
        (views.View, http_page.views(SOURCE)),
    ):
        named = {cls.__name__ for cls in classes_below(base)}
        assert {line[5:-1] for line in printed if line.startswith("### ")} == named
        assert [line for line in printed if line.endswith("| |")] == []
