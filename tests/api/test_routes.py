"""Each route is found by its own method and path, and by no other."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api.operation_table import CALLS, ROUTES, HostRoute, Matched, match
from agentrail.errors import MethodRefused, UsageError
from tests.coded import coded
from tests.each_case import each_case

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "")
IDS = st.text(alphabet=string.ascii_letters + string.digits + "._-", min_size=1, max_size=12) | st.text(
    min_size=1, max_size=4
)
PLACES = {"{id}", "{file}", "{store}", "{name}"}
WORDS = sorted({part for route in ROUTES for part in route.path.split("/")} - PLACES)


def fits(route: HostRoute, path: str) -> bool:
    """Say whether a path is that of a route, part by part; the name of a document is all of the rest."""
    route_parts, path_parts = route.path.split("/"), path.split("/")
    if route_parts[-1] == "{name}":
        path_parts[len(route_parts) - 1 :] = ["/".join(path_parts[len(route_parts) - 1 :])]
    return len(route_parts) == len(path_parts) and all(
        part == other or (part in PLACES and bool(other)) for part, other in zip(route_parts, path_parts, strict=True)
    )


@pytest.mark.long
@given(st.sampled_from(ROUTES), IDS.filter(lambda text: "/" not in text))
def test_each_route_is_found_and_its_id_is_as_it_was(route: HostRoute, session: str) -> None:
    path = route.path.replace("{id}", session).replace("{file}", "a.js")
    result = match(route.method, path.replace("{store}", session).replace("{name}", f"{session}/b"))
    fields = {"store": session, "name": f"{session}/b"}
    in_path = tuple((name, fields[name]) for name in route.path_fields)
    assert result == Matched(route, session if route.about_session else "", in_path)


@pytest.mark.long
@given(
    st.sampled_from(METHODS),
    st.lists(st.sampled_from([*WORDS, "x", "{id}", "v2", "Sessions"]) | IDS, max_size=5).map("/".join),
)
def test_a_path_means_the_route_with_its_parts_and_nothing_else(method: str, path: str) -> None:
    routes = [route for route in ROUTES if fits(route, path)]
    real = [route for route in routes if route.method == ("GET" if method == "HEAD" else method)]
    if real:
        assert [match(method, path).route] == real
        return
    with pytest.raises(UsageError) as caught:
        match(method, path)
    assert caught.value.code == ("method-refused" if routes else "unknown-route")
    if isinstance(caught.value, MethodRefused):
        methods = {route.method for route in routes}
        assert caught.value.allowed == ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


@each_case(
    [
        "",
        "//",
        "/v1",
        "/v1/",
        "/v1/chat/",
        "/v1//sessions",
        "/V1/chat",
        "/v1/sessions//events",
        "/v1/sessions/",
        "*",
        "v1/chat",
        "/v1/sessions/a/nothing",
        "/v1/sessions/a/events/b",
        "/v1/{id}/a",
        "/console",
        "/console/",
        "/console/a/b.js",
        "/v1/knowledge/",
        "/v1/knowledge//documents",
        "/v1/knowledge/a/documents/",
        "/v1/knowledge/a/search/b",
    ]
)
def test_a_path_that_is_almost_one_is_none(path: str) -> None:
    for method in METHODS:
        with pytest.raises(UsageError, check=coded("unknown-route")):
            match(method, path)


def test_a_word_of_the_table_is_no_id_by_itself() -> None:
    assert match("GET", "/v1/sessions/{id}").session == "{id}"
    assert match("GET", "/v1/sessions/events").session == "events"


def test_the_rest_of_a_path_is_the_name_of_a_document() -> None:
    matched = match("PUT", "/v1/knowledge/{store}/documents/a/{name}/search")
    assert (matched.route.call.name, matched.session) == ("put_document", "")
    assert matched.fields == (("store", "{store}"), ("name", "a/{name}/search"))


def test_an_id_that_is_decoded_is_not_decoded_again() -> None:
    assert match("GET", "/v1/sessions/a%2Fevents").session == "a%2Fevents"


def test_the_head_of_what_can_be_read_can_be_read_alone() -> None:
    result = match("HEAD", "/healthz")
    assert result.route.call.name == "health"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/sessions", "GET, HEAD, POST"),
        ("/v1/sessions/a", "DELETE, GET, HEAD"),
        ("/v1/chat", "POST"),
    ],
)
def test_the_methods_of_a_path_are_told(path: str, allowed: str) -> None:
    with pytest.raises(MethodRefused) as refused:
        match("OPTIONS", path)
    assert refused.value.allowed == allowed


def test_each_call_has_one_route() -> None:
    assert sorted(route.call.name for route in ROUTES) == sorted(CALLS)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
