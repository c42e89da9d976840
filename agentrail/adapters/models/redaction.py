"""Removes secrets from answers and errors: a server may echo its request, and a model may repeat a secret.

Calls stay as the model made them: a tool that wrote the mark into a file would damage it.

The secrets that a request to a provider bears: its API key, and the headers that the options name secrets for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, cast

from agentrail.adapters.models.clouds.cloud import cloud_of
from agentrail.adapters.models.providers import Provider
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.url_origin import origin_of
from agentrail.errors import BadModelOptions, KeyMissing, KeyRefused, KeyWanted, ModelError, TransientModelError
from agentrail.errors.agentrail_error import listed
from agentrail.values.content import Said, Thinking, ToolCall
from agentrail.values.secrets import secret_name
from agentrail.values.stream import Chunk, Response, TextChunk, ThinkingChunk
from agentrail.values.untrusted_values import pass_interrupt

INSTEAD: Final = "[secret]"
"""Text that replaces a secret."""

TELLING: Final = 4
"""The fewest characters at the end of an error that count as the beginning of a secret; fewer may be chance."""


SHORTEST: Final = 16
"""The fewest characters of a key that is taken for a secret; those of providers have 25 and more."""

LONG: Final = 24
"""The fewest characters of a key that is taken for a secret although it has no digits, or no letters."""

VARIED: Final = 8
"""The fewest different characters of a key that is taken for a secret."""


def is_secret(key: str) -> bool:
    """Return whether *key* is a secret by its length and form.

    Servers that need no key are often given a word, such as `test`, `EMPTY` or `ollama`, which occurs in ordinary
    texts.
    """
    if len(key) < SHORTEST or len(set(key)) < VARIED:
        return False
    return len(key) >= LONG or (any(map(str.isdigit, key)) and any(map(str.isalpha, key)))


class Redactor:
    """Removes the secrets of one request from texts and chunks. Its `repr` does not show them.

    A key that is no secret by `is_secret` is removed from errors only.
    """

    __slots__ = ("_held", "_keys", "_secrets")

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = tuple(sorted({key for key in keys if key}, key=len, reverse=True))
        self._secrets = tuple(filter(is_secret, self._keys))
        self._held: dict[type[TextChunk | ThinkingChunk], str] = {}

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._keys)}>"

    @property
    def knows_none(self) -> bool:
        """Whether there are no secrets to remove."""
        return not self._keys

    def text(self, text: str) -> str:
        """Return *text* with each secret replaced by `INSTEAD`."""
        return _replace_keys(text, self._secrets)

    def error(self, error: ModelError) -> ModelError:
        """Return *error* with all keys in its text replaced, also one that was cut off at the end of the text."""
        message = _replace_keys(str(error.args[0]), self._keys)
        end = _beginning(message, self._keys)
        return type(error)(message if len(message) - end < TELLING else message[:end] + INSTEAD, error.retry_after)

    def response(self, response: Response) -> Response:
        """Return *response* with each secret in its texts, signatures and ids replaced; names and arguments stay."""
        return response.but(
            parts=tuple(map(self._redact_part, response.parts)), calls=tuple(map(self._call, response.calls))
        )

    def _redact_part(self, part: Said) -> Said:
        text = self.text(part.text)
        if isinstance(part, Thinking) and part.signature is not None:
            return Thinking(text, self.text(part.signature))
        return part.but(text=text)

    def _call(self, call: ToolCall) -> ToolCall:
        return call.but(provider_id=self.text(call.provider_id))

    def chunks(self, chunk: Chunk) -> tuple[Chunk, ...]:
        """Return *chunk* with each secret replaced.

        Text at its end that may be the beginning of a secret is held back until the next chunk of the same kind.
        """
        if not isinstance(chunk, TextChunk | ThinkingChunk):
            return (chunk,)
        kind = type(chunk)
        text = self.text(self._held.pop(kind, "") + chunk.text)
        cut = _beginning(text, self._secrets)
        if cut < len(text):
            self._held[kind] = text[cut:]
        return (kind(text[:cut]),) if cut else ()

    def rest(self) -> tuple[Chunk, ...]:
        """Return the text that `chunks` still holds back at the end of the answer; it is no secret."""
        pending, self._held = self._held, {}
        return tuple(kind(text) for kind, text in pending.items())


def _replace_keys(text: str, keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in text:
            text = text.replace(key, INSTEAD)
    return text


def _beginning(text: str, keys: tuple[str, ...]) -> int:
    """Return the index at which the end of *text* may be the beginning of a key; its length if it is not."""
    first = len(text)
    for key in keys:
        start = text.find(key[0], max(0, len(text) - len(key) + 1))
        while start >= 0 and not key.startswith(text[start:]):
            start = text.find(key[0], start + 1)
        if start >= 0:
            first = min(first, start)
    return first


def redacted_error(error: ModelError, redactor: Redactor) -> ModelError:
    """Return *error* itself if there is no secret in it, else one without; `KeyWanted` if a refused key was none."""
    redacted = redactor.error(error)
    if isinstance(error, KeyRefused) and redactor.knows_none:
        return KeyWanted(str(redacted.args[0]))
    return error if redacted == error else redacted


LookUp: TypeAlias = Callable[[str], str | None]
"""Function that returns the value of the secret with this name, or `None` if there is none."""


def api_key(provider: Provider, settings: Settings, look_up: LookUp) -> str | None:
    """Return the API key, or `None` if none is sent; raise `KeyMissing` if it is not set.

    It is the secret that the option `api_key` names, else an environment variable of the provider. Such a variable
    is only used if the request goes to the provider's own host.
    """
    names = key_names(provider, settings)
    if has_account(provider) and not settings.api_key:
        names = tuple([name for name in names if looked_up(name, look_up)])
    if not names:
        return None
    name = first_key(names, look_up)
    if name is None:
        raise KeyMissing(listed(names))
    return usable(name, look_up)


def has_account(provider: Provider) -> bool:
    """Whether *provider* is a cloud for which the machine may have credentials, where no key is set."""
    cloud = cloud_of(provider.cloud)
    return cloud is not None and cloud.open_account is not None


def key_names(provider: Provider, settings: Settings) -> tuple[str, ...]:
    """Return the names of the secrets of which the first that is set is sent as the API key; none if no key is sent."""
    if settings.api_key:
        return (settings.api_key,)
    return provider.keys if is_own(provider, settings) and not settings.token else ()


def option_headers(settings: Settings, look_up: LookUp) -> tuple[dict[str, str], list[str]]:
    """Return the headers that the options add, their names in lower case, and the secrets in them."""
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for name, value in settings.headers.items():
        named = secret_name(value)
        if named is not None:
            secrets.append(usable(named, look_up))
        headers[name.lower()] = str(value) if named is None else secrets[-1]
    return headers, secrets


def is_own(provider: Provider, settings: Settings) -> bool:
    """Whether requests go to the provider's own host: what the environment holds for it goes nowhere else."""
    if not settings.base_url:
        return True
    cloud = cloud_of(provider.cloud)
    if cloud is not None:
        return cloud.is_own(settings.base_url, os.environ.get)
    return origin_of(settings.base_url) == origin_of(provider.base_url)


def first_key(names: Sequence[str], look_up: LookUp) -> str | None:
    """Return the first of *names* that is set, or the only one; `None` if none is."""
    return names[0] if len(names) == 1 else next((name for name in names if looked_up(name, look_up)), None)


def usable(name: str, look_up: LookUp) -> str:
    """Return the secret called *name*, without spaces around it.

    Raise `KeyMissing` if it is empty or not set, and `BadModelOptions` if an HTTP header cannot contain it.
    """
    key = looked_up(name, look_up).strip()
    if not key:
        problem = f"`{name}`"
        raise KeyMissing(problem)
    if not key.isascii() or not key.isprintable():
        problem = f"the secret `{name}` has characters that no header can hold"
        raise BadModelOptions(problem)
    return key


def looked_up(name: str, look_up: LookUp) -> str:
    """Return what *look_up*, which may be a user's function, has for *name*; an empty text if it has nothing.

    Its errors may hold secrets, so nothing but their type is told. A function that renews a token may fail for now.
    """
    value: object = None
    failure = ""
    try:
        value = cast("object", look_up(name))
    except LookupError:
        return ""
    except BaseException as error:  # noqa: BLE001, ASYNC103 - a user's function may raise anything, also `SystemExit`
        pass_interrupt(error)
        failure = type(error).__name__  # noqa: ASYNC104 - it is raised below, without the error as its context
    if failure:
        problem = f"the secret `{name}` cannot be looked up: the function for secrets raised `{failure}`"
        raise TransientModelError(problem)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    problem = f"the secret `{name}` is of the type `{type(value).__name__}`, and must be a text"
    raise BadModelOptions(problem)
