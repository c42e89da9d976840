"""`open_embedder`: embedders of providers by name, such as `openai:text-embedding-3-small`, over HTTP."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast, final

import msgspec
import trio

from agentrail.adapters.models.http import OK, Http, Patience, Post
from agentrail.adapters.models.provider_errors import error_of_body
from agentrail.adapters.models.provider_requests import AGENT, encoded, merge_headers
from agentrail.adapters.models.providers import PROVIDERS, Provider, format_of
from agentrail.adapters.models.redaction import LookUp, Redactor, api_key, option_headers, redacted_error
from agentrail.adapters.models.settings import Settings, read_settings, with_extra
from agentrail.errors import ModelError, TransientModelError, UnknownModel, WrongEndpoint, WrongType
from agentrail.errors.agentrail_error import listed
from agentrail.values.argument_checks import checked
from agentrail.values.json import EMPTY, JsonObject, freeze_object

MAX_ANSWER: Final = 64 * 1024 * 1024
"""The most bytes of an answer: 64 vectors of 16,384 numbers, each of 20 characters, and more."""

MAX_ATTEMPTS: Final = 4
"""How often a request is sent, if the provider fails in a way that may pass."""

FIRST_WAIT: Final = 0.5
"""Seconds before the second attempt; each later one waits twice as long, unless the provider says how long."""

MAX_WAIT: Final = 30.0
"""The most seconds between two attempts, also if the provider asks for more: then the error is raised."""

UNREAD: Final = (AttributeError, KeyError, RecursionError, TypeError, ValueError, msgspec.DecodeError, struct.error)
"""What the reader of an answer raises that is not of its form."""

Vectors = Sequence[Sequence[float]]


class EmbeddingForm(NamedTuple):
    """How requests for embeddings are written for some providers, and their answers read."""

    path: str
    """The part of the URL after `base_url`; `{}` is the model."""
    render: Callable[[str, Sequence[str], bool], JsonObject]
    """Returns the body for a model, texts, and whether they are queries."""
    parse: Callable[[object], Vectors]
    """Returns the vectors in an answer; raises what `UNREAD` names if it has none."""


def _openai_body(model: str, texts: Sequence[str], _is_query: bool) -> JsonObject:
    return {"input": list(texts), "model": model, "encoding_format": "base64"}


def _openai_vectors(answer: object) -> Vectors:
    rows = cast("list[dict[str, object]]", cast("dict[str, object]", answer)["data"])
    return [_numbers(row["embedding"]) for row in sorted(rows, key=lambda row: cast("int", row.get("index", 0)))]


def _numbers(vector: object) -> Sequence[float]:
    """Return a vector, from a list of numbers or, as was asked for, from their bytes in base64."""
    if not isinstance(vector, str):
        return [float(cast("float", number)) for number in cast("list[object]", vector)]
    data = base64.b64decode(vector, validate=True)
    return struct.unpack(f"<{len(data) // 4}f", data)


def _gemini_body(model: str, texts: Sequence[str], is_query: bool) -> JsonObject:
    task = "RETRIEVAL_QUERY" if is_query else "RETRIEVAL_DOCUMENT"
    return {
        "requests": [
            {"model": f"models/{model}", "content": {"parts": [{"text": text}], "role": "user"}, "taskType": task}
            for text in texts
        ]
    }


def _gemini_vectors(answer: object) -> Vectors:
    rows = cast("list[dict[str, object]]", cast("dict[str, object]", answer)["embeddings"])
    return [_numbers(row["values"]) for row in rows]


_OPENAI: Final = EmbeddingForm("/embeddings", _openai_body, _openai_vectors)

FORMS: Final[Mapping[str, EmbeddingForm]] = {
    "openai": _OPENAI,
    "openai_chat": _OPENAI,
    "gemini": EmbeddingForm("/v1beta/models/{}:batchEmbedContents", _gemini_body, _gemini_vectors),
}
"""By the wire format of a provider: its form of embeddings."""


@checked
def open_embedder(name: str, options: Mapping[str, object] = EMPTY) -> RemoteEmbedder:
    """Return the embedder called *name*: a provider and its model, such as `openai:text-embedding-3-small`.

    *options* are those of models that concern the connection: `api_key`, `base_url`, `headers`, `extra` and the
    timeouts. Raise `UnknownModel` if there is no such provider, or it has no embeddings.
    """
    provider_name, _, model = name.partition(":")
    provider = PROVIDERS.get(provider_name)
    if provider is None or not model or provider.format not in FORMS:
        embedding_names = [f"{key}:…" for key, row in PROVIDERS.items() if row.format in FORMS]
        if provider is not None and model:
            raise UnknownModel(name, listed(sorted(embedding_names)), " with embeddings")
        raise UnknownModel.among(name, embedding_names, {})
    return RemoteEmbedder(name, provider, read_settings(freeze_object(options)), os.environ.get)


@final
class RemoteEmbedder:
    """Embeds texts by one model of one provider. `embed` tries again after failures that may pass."""

    __slots__ = ("_form", "_http", "_look_up", "_model", "_provider", "_settings", "name")

    @checked
    def __init__(self, name: str, provider: Provider, settings: Settings, look_up: LookUp) -> None:
        self.name = name
        """The provider and its model."""
        self._model = name.partition(":")[2]
        self._provider = provider
        self._settings = settings
        self._look_up = look_up
        self._form = FORMS[provider.format]
        self._http: Http | None = None
        """The connections, from the first request until `aclose`."""

    def __repr__(self) -> str:
        return f"<RemoteEmbedder {self.name!r}>"

    @checked
    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Vectors:
        """Return a vector for each of *texts*; raise a `ModelError` if the provider gives none."""
        for text in cast("Sequence[object]", texts):
            if not isinstance(text, str):
                raise WrongType.of("texts", text, "a list of texts")
        wait = FIRST_WAIT
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return await self._attempt(texts, is_query)
            except TransientModelError as error:
                pause = max(wait, error.retry_after or 0.0)
                if pause > MAX_WAIT:
                    raise
            await trio.sleep(pause)
            wait *= 2
        return await self._attempt(texts, is_query)

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def _attempt(self, texts: Sequence[str], is_query: bool) -> Vectors:
        headers, redactor = self._headers()
        try:
            return await self._send(texts, is_query, headers)
        except ModelError as error:
            redacted = redacted_error(error, redactor)
            if redacted is error:
                raise
        # Raised outside the `except`: else the error with the secret would be its context, shown in tracebacks.
        raise redacted

    async def _send(self, texts: Sequence[str], is_query: bool, headers: Mapping[str, str]) -> Vectors:
        settings = self._settings
        patience = Patience(settings.connect_timeout, settings.first_byte_timeout, settings.next_byte_timeout)
        url = (settings.base_url or self._provider.base_url) + self._form.path.format(self._model)
        body = encoded(with_extra(self._form.render(self._model, texts, is_query), settings.extra))
        if self._http is None:
            self._http = Http()
        answer = await self._http.post(Post(url, headers, body, patience, MAX_ANSWER), _no_stream)
        if answer.status not in OK:
            raise error_of_body(format_of(self._provider).faults, answer.status, answer.headers, answer.body)
        return await trio.to_thread.run_sync(_vectors, self._form, answer.body, len(texts))

    def _headers(self) -> tuple[Mapping[str, str], Redactor]:
        """Return the headers from the settings and the key, and the `Redactor` of the secrets in them."""
        key = api_key(self._provider, self._settings, self._look_up)
        headers, secrets = option_headers(self._settings, self._look_up)
        if key is not None:
            secrets.append(key)
            headers = {**format_of(self._provider).key_headers(key), **headers}
        return merge_headers({**AGENT, "accept": "application/json"}, headers), Redactor(secrets)


def _no_stream(_: bytes) -> bool:
    problem = "its answer is a stream, and no JSON"
    raise WrongEndpoint(problem)


def _vectors(form: EmbeddingForm, body: bytes, count: int) -> Vectors:
    """Return the vectors in *body*; raise `WrongEndpoint` if it is no answer with *count* of them."""
    if len(body) >= MAX_ANSWER:
        problem = f"its answer has more than {MAX_ANSWER:,} bytes"
        raise WrongEndpoint(problem)
    try:
        vectors = form.parse(msgspec.json.decode(body))
    except UNREAD as error:
        problem = f"its answer has no embeddings ({type(error).__name__}): {body[:100]!r}"
        raise WrongEndpoint(problem) from None
    if len(vectors) != count:
        problem = f"its answer has {len(vectors)} embeddings of {count} texts"
        raise WrongEndpoint(problem)
    return vectors
