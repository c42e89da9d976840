"""The document is OpenAPI 3.1, has all that the tables have, and its schemas judge as the reading does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import cast

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api.body_parsing import read_body
from agentrail.api.openapi import document, openapi_json
from agentrail.api.operation_table import CALLS, ROUTES, HostCall, errors_of
from agentrail.api.problems import ROWS, problem_of
from agentrail.api.views import OpenedView, View, to_json
from agentrail.errors import UsageError
from agentrail.events import EVENTS
from agentrail.models import Json
from tests.api.schemas import Schema, Schemas
from tests.api.stored_document import STORED, printed
from tests.api.test_problems import example
from tests.codec.sampling import event_sample
from tests.coded import coded
from tests.each_case import each_case

WITH_BODY = pytest.mark.parametrize(
    "call", [call for call in CALLS.values() if call.body is not None], ids=lambda call: call.name
)

VIEWS = [call.gives for call in CALLS.values() if call.gives is not None]


@cache
def read() -> dict[str, object]:
    document: dict[str, object] = json.loads(openapi_json())
    return document


def components() -> dict[str, Schema]:
    return cast("dict[str, dict[str, dict[str, Schema]]]", read())["components"]["schemas"]


def operation(call: HostCall) -> dict[str, object]:
    paths = cast("dict[str, dict[str, dict[str, object]]]", read()["paths"])
    (row,) = [entry for path in paths.values() for entry in path.values() if entry["operationId"] == call.name]
    return row


def body_schema(call: HostCall) -> Schema:
    body = cast("dict[str, dict[str, dict[str, Schema]]]", operation(call)["requestBody"])
    return body["content"]["application/json"]["schema"]


@cache
def schemas() -> Schemas:
    return Schemas(components())


@cache
def fitting_bodies(call: HostCall) -> st.SearchStrategy[Json]:
    """Return a strategy for bodies of a *call*; to make one takes longer than to draw from it."""
    return schemas().values(body_schema(call))


def checker(schema: Schema) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**schema, "components": {"schemas": components()}})


@pytest.mark.long
def test_a_validator_takes_the_document() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # noqa: PLC0415 - no other test of this file waits for it

    assert [error.message for error in OpenAPIV31SpecValidator(read()).iter_errors()] == []


def test_the_document_is_the_same_each_time() -> None:
    assert to_json(document()) == openapi_json()


def test_the_document_is_the_stored_one() -> None:
    assert printed() == STORED.read_text("utf-8"), "if that is meant, run `python -m tests.api.stored_document`"


def test_each_route_is_in_the_document_with_its_errors() -> None:
    paths = cast("dict[str, dict[str, dict[str, dict[str, object]]]]", read()["paths"])
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == {
        (route.method, route.path) for route in ROUTES
    }
    for route in ROUTES:
        statuses = {int(status) for status in paths[route.path][route.method.lower()]["responses"]}
        raised = {ROWS[error].status for error in errors_of(route.call)}
        assert raised | {route.call.status} <= statuses


@each_case(CALLS.values())
def test_a_call_that_needs_a_key_says_so(call: HostCall) -> None:
    expected: object = [{"key": []}, {}] if call.name == "socket" else [{"key": []}] if call.scope else None
    assert operation(call).get("security") == expected
    assert call.scope is None or f"`{call.scope}`" in str(operation(call)["description"])


@each_case(CALLS.values())
def test_a_call_says_that_its_turn_may_wait_for_a_person(call: HostCall) -> None:
    responses = cast("dict[str, object]", operation(call)["responses"])
    assert ("202" in responses) == (call.held or call.status == 202)


@pytest.mark.long
def test_the_schema_of_an_event_takes_what_is_sent() -> None:
    schema = checker({"$ref": "#/components/schemas/Envelope"})
    sent = {event: json.loads(to_json(event_sample(event))) for event in EVENTS}
    assert [event for event, envelope in sent.items() if not schema.is_valid(envelope)] == []


def test_the_schema_of_a_problem_takes_each_problem() -> None:
    schema = checker({"$ref": "#/components/schemas/Problem"})
    for kind in ROWS:
        schema.validate(json.loads(problem_of(example(kind), "talk").content))


@pytest.mark.long
@WITH_BODY
@given(data=st.data())
def test_what_a_schema_takes_is_read_and_what_is_wrong_in_one_place_is_not(call: HostCall, data: st.DataObject) -> None:
    schema = body_schema(call)
    fits = checker(schema)
    fitting = data.draw(fitting_bodies(call))
    fits.validate(fitting)
    body = read_body(call, json.dumps(fitting).encode())
    assert read_body(call, to_json(body)) == body
    if not (wrong := schemas().wrong(schema, fitting) if isinstance(fitting, dict) else []):
        return
    bad = data.draw(st.sampled_from(wrong))
    assert not fits.is_valid(bad)
    with pytest.raises(UsageError, check=coded("bad-body"), match=r"the body of `.+` does not fit: (its `.+`|it) "):
        read_body(call, json.dumps(bad).encode())


# What a tool that makes requests of the document found out about it


def parameters(call: str) -> dict[str, Schema]:
    rows = cast("list[dict[str, Schema]]", operation(CALLS[call])["parameters"])
    return {str(row["name"]): row["schema"] for row in rows}


@pytest.mark.parametrize(
    ("call", "parameter", "good", "bad"),
    [
        (
            "show_session",
            "id",
            ("ann.trip", "trip", "_2a.s-1", "ann.trip.c2.1"),
            ("", "%1d", "a/b", "ann trip", "\x1f"),
        ),
        ("chat", "Idempotency-Key", ("k", "!" * 128), ("", "a b", "x" * 129, "\xff")),
        ("events", "Last-Event-ID", ("12.0", "12"), ("", "x", "1.2.3", "01.2", "1.02")),
        ("events", "since", ("12.0", "0"), ("", "x", "-1")),
        ("events", "types", ("AgentEnd", "AgentEnd,Gap"), ("", "agentend", "AgentEnd,", ",Gap", "AgentEndGap")),
        ("approvals", "after", ("12~ann.trip:a1",), ("", "0", "x~")),
        ("list_sessions", "after", ("ann.trip",), ("", "a b")),
        ("list_sessions", "limit", (1, 2**53 - 1), (0, 2**53)),
    ],
)
def test_a_parameter_has_the_pattern_of_what_is_read(
    call: str, parameter: str, good: tuple[str | int, ...], bad: tuple[str | int, ...]
) -> None:
    fits = checker(parameters(call)[parameter])
    assert [text for text in good if not fits.is_valid(text)] == []
    assert [text for text in bad if fits.is_valid(text)] == []


def test_names_of_new_sessions_have_their_grammar() -> None:
    for call in ("open_session", "fork"):
        fits = checker(body_schema(CALLS[call]))
        assert [fits.is_valid({"session": name}) for name in ("trip", "T-1_x", "x" * 36)] == [True] * 3
        assert [fits.is_valid({"session": name}) for name in ("", "-x", "a.b", "x" * 37)] == [False] * 4


def test_headers_that_an_answer_always_has_are_in_the_document() -> None:
    for route in ROUTES:
        responses = cast("dict[str, dict[str, dict[str, object]]]", operation(route.call)["responses"])
        pairs = {(status, name) for status, response in responses.items() for name in response.get("headers", {})}
        expected = {("401", "WWW-Authenticate"), ("429", "Retry-After"), ("503", "Retry-After"), ("507", "Retry-After")}
        assert pairs == {(status, "X-Request-Id") for status in responses} | {
            ("201", "Location") for _ in (1,) if route.call.gives is OpenedView
        } | {(status, name) for status, name in expected if status in responses and route.call.name != "ready"}, (
            route.call.name
        )


def test_a_host_that_is_not_ready_says_so_in_the_form_of_the_call() -> None:
    responses = cast("dict[str, dict[str, dict[str, dict[str, Schema]]]]", operation(CALLS["ready"])["responses"])
    for status in ("200", "503"):
        assert responses[status]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ReadyView"}


def test_a_file_is_sent_as_it_is_and_not_as_a_form() -> None:
    body = cast("dict[str, dict[str, object]]", operation(CALLS["upload"])["requestBody"])
    assert list(body["content"]) == ["application/octet-stream", "application/pdf", "image/*", "text/*"]
    assert all(
        media == {"schema": {"type": "string", "format": "binary", "minLength": 1}}
        for media in body["content"].values()
    )


# What makers of clients do not understand


def parts(value: object) -> Iterator[Schema]:
    """Yield each object in a document."""
    if isinstance(value, dict):
        yield cast("Schema", value)
    if isinstance(value, dict | list):
        for schema in (
            cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        ):
            yield from parts(schema)


def test_no_schema_has_an_enum_of_one_value_or_items_that_are_false() -> None:
    bad = [
        part
        for part in parts(read())
        if part.get("items") is False or len(cast("list[object]", part.get("enum", "--"))) == 1
    ]
    assert bad == []


def test_an_object_without_fields_of_its_own_may_have_any() -> None:
    """Else makers of clients for TypeScript take it for an object that has none, such as for edited arguments."""
    bare = [part for part in parts(read()) if part.get("type") == "object" and "properties" not in part]
    assert [part for part in bare if "additionalProperties" not in part] == []


@each_case(VIEWS)
def test_all_fields_of_a_view_are_required_because_they_are_always_written(view: type[View]) -> None:
    schema = components()[view.__name__]
    assert schema.get("required", []) == list(cast("Schema", schema["properties"]))


def test_the_tag_of_each_event_is_a_constant() -> None:
    for event in EVENTS:
        properties = cast("dict[str, Schema]", components()[event.__name__]["properties"])
        assert properties["$"]["const"] == event.__name__


def test_a_query_parameter_is_required_if_it_has_no_default() -> None:
    for call in CALLS.values():
        if call.query is not None:
            rows = cast("list[dict[str, object]]", operation(call)["parameters"])
            required = {row["name"] for row in rows if row["in"] in {"query", "path"} and row["required"]} - {"id"}
            assert required == {field.encode_name for field in msgspec.structs.fields(call.query) if field.required}, (
                call.name
            )
