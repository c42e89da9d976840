"""The options of a model, the same for all providers: read from JSON, and checked.

They are given in `SessionSpec.model_options`, and in `switch_model` after the model's name. Options are kept in the
journal, so an API key is given as the name of a secret, never as its value. Fields that only one provider knows go into
`extra`: it adds fields to the body of the request, and tools to its list, and cannot replace those set by others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from agentrail.errors import BadModelOptions
from agentrail.errors.agentrail_error import listed, suggestion
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.secrets import plain_secret, secret_name
from agentrail.values.value import Value

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The values of `reasoning_effort`, from no thinking to the most."""

CHOICES: Final = ("auto", "any", "none")
"""The values of `tool_choice`: tools may, must or must not be called. `{"tool": name}` demands a call of that tool."""


_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

_HEADER: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)


class Settings(Value):
    """The options of a model after they were read and checked."""

    api_key: str = ""
    """The name of the secret that holds the API key; if empty, the provider's usual environment variables are read."""
    base_url: str = ""
    """The URL of the API; if empty, the provider's own."""
    headers: Mapping[str, Json] = EMPTY
    """HTTP headers to add; each value is a text, or the name of a secret."""
    connect_timeout: float = 5.0
    """The most seconds to connect."""
    first_byte_timeout: float = 120.0
    """The most seconds from the start of the request, connecting included, to the first byte of the answer."""
    next_byte_timeout: float = 120.0
    """The most seconds from one byte of the answer to the next; some models send nothing for long while they think."""
    max_tokens: int | None = None
    """The most tokens of the answer; `None` if the provider's default holds (`anthropic`: 32,000, old models fewer)."""
    temperature: float | None = None
    """How random the answer is, from 0; `None` if the default of the provider holds."""
    reasoning_effort: str = ""
    """`none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; if empty, the provider decides."""
    stop: tuple[str, ...] = ()
    """Texts at which the model stops writing."""
    tool_choice: str = "auto"
    """Whether tools may be called (`auto`), must be (`any`), must not be (`none`), or `tool` must be (`tool`).

    As an option, the last one is written `{"tool": name}`.
    """
    tool: str = ""
    """The tool that must be called if `tool_choice` is `tool`; set by that option."""
    response_format: JsonObject | None = None
    """The JSON Schema of the answer; an empty one permits any JSON object. `None` if the answer is plain text."""
    cache: bool = True
    """Whether the request marks its beginning for the provider's prompt cache, if the provider uses such marks.

    A mapping of `points` (the most marks, from 1 on) and `min_tokens` (the fewest tokens before a mark) limits them.
    """
    cache_points: int = 4
    """The most marks for the prompt cache; set by the option `cache`."""
    cache_min_tokens: int = 0
    """The fewest tokens, about, that stand before a mark for the prompt cache; set by the option `cache`."""
    tool_search: bool = False
    """Whether deferred tools are found in the provider's own form; only `anthropic` and `openai` have one."""
    region: str = ""
    """The region of a cloud (`bedrock`, `vertex`); if empty, the environment or the cloud's own files name it."""
    project: str = ""
    """The project (`vertex`); if empty, the environment or the cloud's own files name it."""
    profile: str = ""
    """The profile of the files of AWS (`bedrock`); if empty, the environment names it, or it is the default one."""
    token: str = ""
    """The name of a secret that is sent as a Bearer token to a cloud, such as one of Entra (`azure`).

    It is looked up for each request, in a thread, so that a function given as `secrets` may take time to renew it.
    """
    api_version: str = ""
    """The version in the address of Azure's older API, with deployments; if empty, the API without versions is used."""
    extra: JsonObject = EMPTY
    """Further fields of the request's body, under the provider's own names."""


def read_settings(options: JsonObject) -> Settings:
    """Return *options* as settings; raise `BadModelOptions` for an unknown option or an invalid value."""
    where = plain_secret(options)
    if where is not None:
        problem = f"`{where}` looks like a secret; give its name instead: `Secret(…)`"
        raise BadModelOptions(problem)
    changes: dict[str, object] = {}
    for name, value in options.items():
        reader = READERS.get(name)
        if reader is None:
            problem = (
                f"there is no option `{name}`{suggestion(name, READERS)}; there are {listed(READERS)}; "
                f"a field that only this provider knows goes into `extra`"
            )
            raise BadModelOptions(problem)
        if value is not None:
            changes |= reader(name, value)
    settings = Settings().but(**changes)
    if settings.api_key and settings.token:
        problem = "`api_key` and `token` are two credentials, and a request bears one; leave one of them out"
        raise BadModelOptions(problem)
    return settings


CLOUD_OPTIONS: Final = ("region", "project", "profile", "token", "api_version")
"""Options that only clouds have, and each of them some."""


def _wrong(name: str, value: Json, expected: str) -> BadModelOptions:
    return BadModelOptions(f"`{name}` is {value!r:.80}; it must be {expected}")


def _secret(name: str, value: Json) -> dict[str, object]:
    named = secret_name(value)
    if named is None:
        problem = f"`{name}` must be the name of a secret: `Secret(…)`"
        raise BadModelOptions(problem)
    return {name: named}


def _url(name: str, value: Json) -> dict[str, object]:
    if not isinstance(value, str):
        raise _wrong(name, value, "an address")
    problem = address_problem(value)
    if problem is not None:
        text = f"`{name}` cannot be used: {problem}"
        raise BadModelOptions(text)
    return {name: value.rstrip("/")}


def address_problem(value: str) -> str | None:
    """Return what is wrong with the address *value*, as in "it must be …"; `None` if it will do.

    The address is not shown: it may hold a password, or be a key in the wrong place.
    """
    try:
        parts = urlsplit(value)
        _ = parts.port  # may raise `ValueError`, for a text that is no number
    except ValueError:
        return "it must be an address"
    if "@" in parts.netloc or "?" in value or "#" in value:
        return "it must be a plain address, without a user name, `?` or `#`"
    if not value.isprintable() or any(letter in value for letter in ' "<>\\^`{|}'):
        return "it must be an address without spaces, backslashes or brackets"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "it must be an address that begins with `https://` or `http://`"
    return None


def _headers(name: str, value: Json) -> dict[str, object]:
    if not isinstance(value, Mapping) or secret_name(value) is not None:
        raise _wrong(name, value, "an object of texts and secrets")
    for key, item in value.items():
        if not _HEADER.fullmatch(key) or (isinstance(item, str) and not (item.isascii() and item.isprintable())):
            where = f"{name}.{key}"
            raise _wrong(where, item, "what HTTP takes as a header")
        if not isinstance(item, str) and secret_name(item) is None:
            where = f"{name}.{key}"
            raise _wrong(where, item, "a text or a secret")
    return {name: value}


def _number(least: float, *, is_integer: bool) -> Callable[[str, Json], dict[str, object]]:
    def read(name: str, value: Json) -> dict[str, object]:
        kinds = (int,) if is_integer else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or value < least:
            raise _wrong(name, value, f"a {'whole number' if is_integer else 'number'}, {least:g} or more")
        return {name: value if is_integer else float(value)}

    return read


def _word(name: str, value: Json) -> dict[str, object]:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise _wrong(name, value, "a text of letters, digits, `-`, `_` and `.`")
    return {name: value}


def _effort(name: str, value: Json) -> dict[str, object]:
    if value not in EFFORTS:
        raise _wrong(name, value, f"one of {listed(EFFORTS)}")
    return {name: value}


def _texts(name: str, value: Json) -> dict[str, object]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
        raise _wrong(name, value, "a text, or a list of texts")
    return {name: tuple(texts)}


def _tool_choice(name: str, value: Json) -> dict[str, object]:
    if value in CHOICES:
        return {name: value}
    tool = value.get("tool") if isinstance(value, Mapping) and len(value) == 1 else None
    if not isinstance(tool, str) or not tool:
        raise _wrong(name, value, f'one of {listed(CHOICES)}, or {{"tool": name}}')
    return {name: "tool", "tool": tool}


def _object(name: str, value: Json) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object")
    return {name: value}


def _flag(name: str, value: Json) -> dict[str, object]:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return {name: value}


def _cache(name: str, value: Json) -> dict[str, object]:
    if isinstance(value, bool):
        return {name: value}
    expected = "true, false, or an object with `points` (from 1 on) and `min_tokens` (from 0 on)"
    if not isinstance(value, Mapping) or value.keys() - _CACHE_FIGURES.keys():
        raise _wrong(name, value, expected)
    changes: dict[str, object] = {name: True}
    for figure, least in _CACHE_FIGURES.items():
        number = value.get(figure)
        if number is None:
            continue
        if type(number) is not int or number < least:
            raise _wrong(name, value, expected)
        changes[f"{name}_{figure}"] = number
    return changes


_CACHE_FIGURES: Final = {"points": 1, "min_tokens": 0}
"""The figures of the option `cache`, and the least value of each."""

_SECONDS: Final = _number(0.001, is_integer=False)

READERS: Final[Mapping[str, Callable[[str, Json], dict[str, object]]]] = {
    "api_key": _secret,
    "base_url": _url,
    "headers": _headers,
    "connect_timeout": _SECONDS,
    "first_byte_timeout": _SECONDS,
    "next_byte_timeout": _SECONDS,
    "max_tokens": _number(1, is_integer=True),
    "temperature": _number(0, is_integer=False),
    "reasoning_effort": _effort,
    "stop": _texts,
    "tool_choice": _tool_choice,
    "response_format": _object,
    "cache": _cache,
    "tool_search": _flag,
    "region": _word,
    "project": _word,
    "profile": _word,
    "token": _secret,
    "api_version": _word,
    "extra": _object,
}
"""All options, each with the function that checks its value and returns the fields of `Settings` that it sets."""


JOINED: Final = frozenset({"tools", "include"})
"""Lists of a request that `extra` appends to: tools that the provider runs itself, and what is to be in its answer."""


def with_extra(body: JsonObject, extra: JsonObject) -> JsonObject:
    """Return *body* with the fields of *extra* added; objects are merged, and the lists in `JOINED` are appended.

    Raise `BadModelOptions` if *extra* would replace a field that is already set, or a tool of the same name.
    """
    merged = dict(body)
    for key, item in extra.items():
        old_value = merged.get(key)
        if key not in merged:
            merged[key] = item
        elif isinstance(old_value, Mapping) and isinstance(item, Mapping):
            merged[key] = with_extra(old_value, item)
        elif key in JOINED and isinstance(old_value, list | tuple) and isinstance(item, list | tuple):
            _refuse_twins(old_value, item)
            merged[key] = [*old_value, *item]
        else:
            problem = f"`extra` may not replace `{key}`, which the request sets already"
            raise BadModelOptions(problem)
    return merged


def _refuse_twins(tools: Iterable[Json], added: Iterable[Json]) -> None:
    """Raise `BadModelOptions` if one of *added* has the name of one of *tools*, which providers refuse."""
    for name in set(_names_of(tools)).intersection(_names_of(added)):
        problem = f"`extra` brings a tool {name!r}, and the session has one of this name; leave one of them out"
        raise BadModelOptions(problem)


def _names_of(tools: Iterable[Json]) -> Iterator[str]:
    """Yield the names of the *tools* that have one; tools that a provider runs may have none."""
    for tool in tools:
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if isinstance(name, str):
            yield name
