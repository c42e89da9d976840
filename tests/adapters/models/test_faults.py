import json

import pytest

from agentrail.adapters.models.provider_errors import Faults, error_of, error_of_body, retry_after
from agentrail.errors import (
    AccessDenied,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    WrongEndpoint,
)
from tests.each_case import each_case

FAULTS = Faults({"no_money": QuotaSpent, "busy": Overloaded})


@each_case(
    [
        (400, RequestRefused),
        (401, KeyRefused),
        (402, QuotaSpent),
        (403, AccessDenied),
        (404, ModelMissing),
        (405, WrongEndpoint),
        (408, ProviderFailed),
        (409, ProviderFailed),
        (413, ContextTooLong),
        (418, RequestRefused),
        (422, RequestRefused),
        (429, RateLimited),
        (500, ProviderFailed),
        (502, ProviderFailed),
        (503, Overloaded),
        (504, ProviderFailed),
        (529, Overloaded),
        (200, WrongEndpoint),
        (302, WrongEndpoint),
    ]
)
def test_a_status_means_the_same_for_all(status: int, wanted: type[ModelError]) -> None:
    assert error_of_body(FAULTS, status, {}, b"") == wanted(f"{status}: it gives no reason", None)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"error": {"type": "no_money", "message": "Pay."}}, QuotaSpent("429 no_money: Pay.", None)),
        ({"error": {"code": "busy", "type": "x", "message": "Wait."}}, Overloaded("429 busy x: Wait.", None)),
        ({"error": {"code": None, "message": "Wait."}}, RateLimited("429: Wait.", None)),
        ({"error": "Wait."}, RateLimited("429: Wait.", None)),
        ([{"error": {"code": 429, "message": "Wait."}}], RateLimited("429: Wait.", None)),
        ({"message": "Wait."}, RateLimited("429: Wait.", None)),
        ({"error": [1]}, RateLimited("429: it gives no reason", None)),
        ("Wait.", RateLimited("429: Wait.", None)),
        (None, RateLimited("429: it gives no reason", None)),
    ],
)
def test_a_type_of_the_provider_decides_before_the_status(body: object, wanted: ModelError) -> None:
    assert error_of_body(FAULTS, 429, {}, json.dumps(body).encode()) == wanted


@pytest.mark.parametrize(
    ("status", "headers", "body", "wanted"),
    [
        (404, {}, {"detail": "Not Found"}, ModelMissing("404: Not Found", None)),
        (422, {}, {"detail": [{"msg": "field required"}]}, RequestRefused('422: [{"msg": "field required"}]', None)),
        (307, {"location": "/v1/"}, None, WrongEndpoint("307: it leads to /v1/", None)),
        (200, {}, {"id": 1}, WrongEndpoint('200: it is no stream, but begins with {"id": 1}', None)),
    ],
)
def test_what_is_there_to_be_said_is_said(
    status: int, headers: dict[str, str], body: object, wanted: ModelError
) -> None:
    assert error_of_body(FAULTS, status, headers, b"" if body is None else json.dumps(body).encode()) == wanted


@pytest.mark.parametrize("status", [0, 200])
def test_an_error_that_comes_with_no_status_of_its_own_may_name_one(status: int) -> None:
    error = error_of(FAULTS, {"error": {"code": 429, "message": "Wait."}}, status)
    assert type(error) is RateLimited


def test_an_error_that_comes_with_200_is_the_provider_s() -> None:
    body = json.dumps({"error": {"message": "It broke."}}).encode()
    assert error_of_body(FAULTS, 200, {}, body) == ProviderFailed("200: It broke.", None)


def test_an_error_in_the_stream_that_says_nothing_is_the_provider_s() -> None:
    assert error_of(FAULTS, {"error": {}}) == ProviderFailed("it gives no reason", None)


def test_a_body_that_is_no_json_is_shown_up_to_a_limit() -> None:
    error = error_of_body(FAULTS, 502, {}, b"<html>" + b"x" * 1000)
    assert error == ProviderFailed(f"502: {'<html>' + 'x' * 494}", None)


@pytest.mark.parametrize(
    "said",
    [
        "prompt is too long: 207791 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "Request size exceeds model context window",
        "This model's maximum context length is 4097 tokens",
        "context_length_exceeded",
        "the request exceeds the available context size. try increasing the context size",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "the input token count is 1251952 but model only supports up to 1048576",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
    ],
)
def test_a_bad_request_that_says_that_the_context_is_too_long_is_an_overflow(said: str) -> None:
    body = json.dumps({"error": {"message": said}}).encode()
    assert isinstance(error_of_body(FAULTS, 400, {}, body), ContextTooLong)
    assert isinstance(error_of_body(FAULTS, 500, {}, body), ProviderFailed)


@each_case(
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5),
        ({"x-amz-retry-after": "1500"}, 1.5),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT", "date": "Fri, 20 Nov 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT", "date": "Fri, 20 Nov 2026 12:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}, None),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT", "date": "noon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ]
)
def test_when_to_try_again_is_read_in_each_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
    assert error_of_body(FAULTS, 429, headers, b"").retry_after == seconds
