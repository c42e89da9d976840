"""The page of the interface has every route, body, query, view and kind of problem, from the OpenAPI document."""

import re
from typing import cast

import msgspec

from agentrail.api import bodies
from agentrail.api.openapi import Document, classes_below
from agentrail.api.operation_table import ROUTES
from agentrail.api.problems import ROWS, code_of
from docs.printing import http_page
from tests.docs.sources import ROOT, SOURCE

PAGE = http_page.HttpPage(SOURCE)

MOST_WORDS = 7_560
"""A third of the words that the page had when it repeated all that the document says."""


def test_each_route_has_a_line_under_its_scopes() -> None:
    scopes_by_route: dict[str, list[str]] = {}
    scopes: list[str] = []
    for line in http_page.routes():
        names = re.findall(r"`([^`]+)`", line)
        if line.startswith("- "):
            scopes_by_route[names[0]] = scopes
        elif line:
            scopes = names
    expected = {f"{route.method} {route.path}": (route.call.scope, route.call.others) for route in ROUTES}
    assert scopes_by_route == {name: [*dict.fromkeys(filter(None, both))] for name, both in expected.items()}


def test_each_kind_of_problem_has_a_place() -> None:
    listed = {name for line in http_page.problems() for name in re.findall(r"`([^`]+)`", line)}
    assert listed == {code_of(row.told_as or kind) for kind, row in ROWS.items() if row.status != 500}
    assert http_page.problems()[-1] == "- 500: all others."


def test_each_body_is_there_and_all_fields_are_described() -> None:
    printed = [*PAGE.described_bodies(), *PAGE.bodies()]
    named = {match[1] for line in printed if (match := re.match(r"(?:### |- )`(\w+)`", line))}
    assert {cls.__name__ for cls in classes_below(bodies.CallBody)} - named == set()
    assert [line for line in printed if line.endswith(": ")] == []


def test_each_parameter_stands_at_its_route() -> None:
    lines = {line.split("`")[1]: line for line in http_page.routes() if line.startswith("- ")}
    for route in ROUTES:
        names = re.findall(r"`\?(\w+)`", lines[f"{route.method} {route.path}"])
        fields = msgspec.structs.fields(route.call.query) if route.call.query is not None else ()
        assert names == [field.encode_name for field in fields if field.name not in route.path_fields]


def test_a_view_that_is_told_by_an_object_of_the_library_has_all_its_fields() -> None:
    components = cast("dict[str, Document]", http_page.described_document(SOURCE)["components"])
    schemas = cast("dict[str, dict[str, Document]]", components["schemas"])
    for view, told in http_page.LOCAL.items():
        assert {field.name for field in SOURCE.fields(told)} <= schemas[view]["properties"].keys()


def test_the_document_of_the_site_has_a_sentence_for_each_field_of_an_answer() -> None:
    components = cast("dict[str, Document]", http_page.described_document(SOURCE)["components"])
    schemas = cast("dict[str, Document]", components["schemas"])
    views_with_schema = [cls for cls in http_page.views() if cls.__name__ in schemas]
    assert len(views_with_schema) > 60
    for view in views_with_schema:
        assert schemas[view.__name__].get("description"), view
        fields = cast("dict[str, Document]", schemas[view.__name__].get("properties", {}))
        assert [name for name, field in fields.items() if name != "$" and not field.get("description")] == [], view


def test_the_page_has_a_third_of_the_words_that_it_had() -> None:
    text = (ROOT / "docs" / "reference" / "http.md").read_text("utf-8")
    assert len(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).split()) <= MOST_WORDS
