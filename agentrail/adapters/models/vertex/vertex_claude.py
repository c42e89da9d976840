"""Anthropic's models at Vertex AI."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.anthropic import FORMAT as ANTHROPIC
from agentrail.adapters.models.anthropic.message_decoder import MessageDecoder
from agentrail.adapters.models.anthropic.requests import OLDER, VERSION, VERSION_HEADER
from agentrail.adapters.models.gemini.faults import FAULTS as GOOGLE
from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.vertex import with_own_thoughts
from agentrail.adapters.models.wire_format import Rendered
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest

FAULTS: Final = Faults({**GOOGLE.by_type, **ANTHROPIC.faults.by_type}, (*ANTHROPIC.faults.fields, *GOOGLE.fields))
"""The errors of both: Google refuses what does not reach Anthropic's server."""

VERSIONS: Final = {VERSION: VERSION, OLDER: "vertex-2023-10-16"}
"""The version in the body, by that of Anthropic's own API, whose header is left out here.

`AnthropicVertex` sends the newer one since its version 2, and Anthropic's page on versions has it for Google Cloud.
Pages that ask for `vertex-2023-10-16` are from before: it is what the SDK sent until then.
"""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*, which is named in the path alone."""
    rendered = ANTHROPIC.render(with_own_thoughts(request, "anthropic"), provider, _dashed(model), settings)
    body = {name: value for name, value in rendered.body.items() if name != "model"}
    path = f"/publishers/anthropic/models/{quote(model, safe='@')}:streamRawPredict"
    headers = dict(rendered.headers)
    version = VERSIONS[headers.pop(VERSION_HEADER)]
    return rendered.but(path=path, headers=headers, body={"anthropic_version": version, **body})


def _form(request: ModelRequest, provider: str, model: str) -> JsonObject | None:
    return ANTHROPIC.form(request, provider, _dashed(model))


def _demands(provider: str, model: str, settings: Settings) -> bool:
    return ANTHROPIC.demands(provider, _dashed(model), settings)


def _dashed(model: str) -> str:
    """Return the name of *model* as Anthropic has it: `-` stands before its date there, and `@` here."""
    return model.replace("@", "-")


FORMAT: Final = ANTHROPIC._replace(
    faults=FAULTS, render=render, decoder=partial(MessageDecoder, FAULTS), form=_form, demands=_demands
)
