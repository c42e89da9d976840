import re

import pytest

from agentrail import Secret
from agentrail.adapters.models.settings import READERS, Settings, read_settings, with_extra
from agentrail.errors import BadModelOptions
from agentrail.models import Json
from agentrail.values.secrets import plain_secret
from tests.each_case import each_case
from tests.kit import EMPTY, freeze_object, thaw

GOOD: dict[str, tuple[Json, Settings]] = {
    "api_key": (Secret("ACME_KEY"), Settings(api_key="ACME_KEY")),
    "base_url": ("http://127.0.0.1:8000/v1/", Settings(base_url="http://127.0.0.1:8000/v1")),
    "headers": ({"x-team": "lamps"}, Settings(headers=freeze_object({"x-team": "lamps"}))),
    "connect_timeout": (1, Settings(connect_timeout=1.0)),
    "first_byte_timeout": (600, Settings(first_byte_timeout=600.0)),
    "next_byte_timeout": (0.5, Settings(next_byte_timeout=0.5)),
    "max_tokens": (500, Settings(max_tokens=500)),
    "temperature": (0, Settings(temperature=0.0)),
    "reasoning_effort": ("high", Settings(reasoning_effort="high")),
    "stop": ("END", Settings(stop=("END",))),
    "tool_choice": ({"tool": "lamp"}, Settings(tool_choice="tool", tool="lamp")),
    "response_format": ({}, Settings(response_format=EMPTY)),
    "cache": (False, Settings(cache=False)),
    "tool_search": (True, Settings(tool_search=True)),
    "region": ("us-east-1", Settings(region="us-east-1")),
    "project": ("my-project", Settings(project="my-project")),
    "profile": ("work", Settings(profile="work")),
    "token": (Secret("TOKEN"), Settings(token="TOKEN")),
    "api_version": ("2025-04-01-preview", Settings(api_version="2025-04-01-preview")),
    "extra": ({"seed": 1}, Settings(extra=freeze_object({"seed": 1}))),
}

BAD: tuple[tuple[str, Json, str], ...] = (
    ("api_key", "sk-plain", "`api_key` looks like a secret; give its name instead"),
    ("api_key", 3, "`api_key` must be the name of a secret"),
    ("headers", {"Authorization": "Bearer sk"}, "`headers.Authorization` looks like a secret"),
    ("headers", {"x-api-key": "sk"}, "`headers.x-api-key` looks like a secret"),
    ("headers", {"x-team": 3}, "`headers.x-team` is 3; it must be a text or a secret"),
    ("headers", ["x-team"], "it must be an object"),
    ("headers", {"x team": "a"}, "`headers.x team` is 'a'; it must be what HTTP takes as a header"),
    ("headers", {"x-team": "a\r\nb: c"}, "it must be what HTTP takes as a header"),
    ("headers", {"x-team": "ü"}, "it must be what HTTP takes as a header"),
    ("extra", {"auth": {"access_token": "sk"}}, "`extra.auth.access_token` looks like a secret"),
    ("extra", [1], "`extra` is"),
    ("base_url", "127.0.0.1:8000", "begins with `https://`"),
    ("base_url", "http://me:sk@127.0.0.1", "without a user name"),
    ("base_url", "https://x/?key=1", "without a user name, `?` or `#`"),
    ("base_url", "http://x:99999", "it must be an address"),
    ("base_url", 3, "it must be an address"),
    ("max_tokens", 0, "it must be a whole number, 1 or more"),
    ("max_tokens", 2.5, "it must be a whole number"),
    ("max_tokens", True, "it must be a whole number"),
    ("temperature", "hot", "it must be a number, 0 or more"),
    ("next_byte_timeout", 0, "it must be a number, 0.001 or more"),
    ("reasoning_effort", "huge", "one of `none`, `minimal`"),
    ("stop", [""], "a text, or a list of texts"),
    ("stop", 3, "a text, or a list of texts"),
    ("region", "us-east-1.evil.com/", "letters, digits"),
    ("region", 3, "letters, digits"),
    ("project", "../x", "letters, digits"),
    ("api_version", "", "letters, digits"),
    ("token", 3, "the name of a secret"),
    ("tool_choice", "some", "one of `auto`, `any`, `none`"),
    ("tool_choice", {"tool": ""}, "one of `auto`, `any`, `none`"),
    ("response_format", "json", "it must be an object"),
    ("cache", "yes", "it must be true, false, or an object with `points` (from 1 on) and `min_tokens` (from 0 on)"),
    ("max_token", 3, "there is no option `max_token` (did you mean `max_tokens`?); there are `api_key`"),
)


@each_case(READERS)
def test_each_option_is_read_and_none_means_the_default(name: str) -> None:
    given, wanted = GOOD[name]
    assert read_settings(freeze_object({name: given})) == wanted
    assert read_settings(freeze_object({name: None})) == Settings()


@each_case(BAD)
def test_what_an_option_does_not_take_is_said(name: str, given: Json, problem: str) -> None:
    with pytest.raises(BadModelOptions, match=re.escape(problem)) as raised:
        read_settings(freeze_object({name: given}))
    assert "sk" not in str(raised.value)


def test_a_secret_in_a_header_is_a_name() -> None:
    options = freeze_object({"headers": {"x-api-key": Secret("ACME_KEY")}})
    assert read_settings(options).headers == {"x-api-key": {"secret": "ACME_KEY"}}


def test_extra_adds_and_never_replaces() -> None:
    body = freeze_object({"model": "m", "output": {"effort": "low"}})
    added = freeze_object({"seed": 1, "output": {"format": "x"}})
    assert with_extra(body, added) == {"model": "m", "seed": 1, "output": {"effort": "low", "format": "x"}}
    for extra in ({"model": "other"}, {"output": {"effort": "high"}}, {"output": 3}):
        with pytest.raises(BadModelOptions, match="`extra` may not replace"):
            with_extra(body, freeze_object(extra))


def test_extra_adds_tools_that_the_provider_runs() -> None:
    body = freeze_object({"tools": [{"name": "lamp"}], "include": ["a"], "stop": ["x"]})
    search = {"type": "web_search_20250305", "name": "web_search"}
    added = with_extra(body, freeze_object({"tools": [search, {"google_search": {}}], "include": ["b"]}))
    assert thaw(added["tools"]) == [{"name": "lamp"}, search, {"google_search": {}}]
    assert thaw(added["include"]) == ["a", "b"]
    with pytest.raises(BadModelOptions, match="brings a tool 'lamp', and the session has one of this name"):
        with_extra(body, freeze_object({"tools": [{"name": "lamp"}]}))
    replacing: list[dict[str, object]] = [{"stop": ["y"]}, {"tools": {}}, {"tools": "x"}]
    for extra in replacing:
        with pytest.raises(BadModelOptions, match="`extra` may not replace"):
            with_extra(body, freeze_object(extra))


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 3, "stop_token": 7},
        {"api_key": Secret("A")},
        {"prompt_cache_key": "a-name"},
        {"extra": {"tokens": "many", "keys": ["a"]}},
        {"api_key": ""},
    ],
)
def test_what_is_no_secret_is_let_through(options: dict[str, Json]) -> None:
    assert plain_secret(freeze_object(options)) is None
