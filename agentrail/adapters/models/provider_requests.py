"""`render`: a request to a model as its provider gets it by HTTP, to be sent, or to be looked at later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from agentrail.adapters.models.model_access import shown_base_url, shown_headers
from agentrail.adapters.models.providers import PROVIDERS, format_of
from agentrail.adapters.models.settings import Settings, read_settings, with_extra
from agentrail.core.answers import with_answer_tool
from agentrail.errors import UnknownModel, WrongEndpoint
from agentrail.values.argument_checks import checked
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest
from agentrail.values.value import Value

if TYPE_CHECKING:
    from agentrail.adapters.models.wire_format import WireFormat

AGENT: Final = {
    "accept": "text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "agentrail",
}
"""Headers of every request."""

LISTS: Final = frozenset({"anthropic-beta"})
"""Headers that hold lists: one in the options is appended to that of the wire format. Any other one replaces it."""


class ProviderRequest(Value):
    """A request as a provider gets it by HTTP `POST`, without the secrets in it."""

    url: str
    """The URL."""
    headers: Mapping[str, str]
    """The headers, their names in lower case; `$NAME` stands in place of the secret `NAME`."""
    body: str
    """The body: JSON, sent as UTF-8, byte for byte."""


@checked
def render(request: ModelRequest, *, by_tool: bool | None = None) -> ProviderRequest:
    """Return *request* as the provider of its model gets it.

    Of several secrets that may be the API key, the first that is set here is named.
    *by_tool* says for a request with a form of the answer (`returns`) that the answer is asked for by a tool, as if the
    provider had refused the schema (`Response.by_tool` of the response tells). Raise `UnknownModel` if the model is of
    no provider: what other models send is their own affair.
    """
    name, _, model = request.model.partition(":")
    provider = PROVIDERS.get(name)
    if provider is None or not model:
        raise UnknownModel.among(request.model, [f"{provider}:…" for provider in PROVIDERS], {})
    wire, settings = format_of(provider, model), read_settings(request.options)
    request = with_demanded(request, settings)
    if request.returns:
        form = None if by_tool else wire.form(request, name, model)
        if form is None:
            request, settings, _ = ask_by_tool(wire, name, model, request, settings)
        else:
            settings = settings.but(response_format=form)
    base_url, credentials = shown_base_url(provider, model, settings), shown_headers(provider, wire, settings)
    url, headers, body = address(wire, base_url, request.model, request, settings)
    return ProviderRequest(url, merge_headers(headers, credentials), msgspec.json.encode(body).decode())


def address(
    wire: WireFormat, base_url: str, named: str, request: ModelRequest, settings: Settings
) -> tuple[str, dict[str, str], JsonObject]:
    """Return URL, headers and body of a request to the model *named*; options and key may add headers to these."""
    name, _, model = named.partition(":")
    rendered = wire.render(request, name, model, settings)
    return base_url + rendered.path, {**AGENT, **rendered.headers}, with_extra(rendered.body, settings.extra)


def encoded(body: JsonObject) -> bytes:
    """Return *body* as it is sent; raise `WrongEndpoint` if it cannot be written."""
    try:
        return msgspec.json.encode(body)  # images of 15 MB take 15 ms, and 80 ms with `json`
    except (ValueError, TypeError) as error:
        problem = f"no request can be made for it ({type(error).__name__})"
        raise WrongEndpoint(problem) from None


def merge_headers(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of both; *then* replaces those of *first*, but the ones in `LISTS` are joined."""
    joined = {name: f"{first[name]},{then[name]}" for name in LISTS if name in first and name in then}
    return {**first, **then, **joined}


def with_demanded(request: ModelRequest, settings: Settings) -> ModelRequest:
    """Return *request* with the tool that the option `tool_choice` demands declared, if it is a deferred one."""
    tool_name = settings.tool if settings.tool_choice == "tool" else ""
    tool = next((tool for tool in request.deferred if tool.name == tool_name), None)
    if tool is None:
        return request
    others = tuple([other for other in request.deferred if other is not tool])
    return request.but(tools=(*request.tools, tool), deferred=others)


def ask_by_tool(
    wire: WireFormat, provider: str, model: str, request: ModelRequest, settings: Settings
) -> tuple[ModelRequest, Settings, str]:
    """Return *request* and *settings* with a tool in place of the schema of the answer, and the name of the tool."""
    if settings.tool_choice == "none":
        request, settings = request.but(may_call=False), settings.but(tool_choice="auto")
    tool_request, tool = with_answer_tool(request)
    settings = demanding(tool_request, settings, able=wire.demands(provider, model, settings))
    return tool_request, settings.but(response_format=None), tool


def demanding(request: ModelRequest, settings: Settings, *, able: bool) -> Settings:
    """Return *settings* that demand the tool which *request* says must be called.

    If the model is not *able* to heed that, it decides, and a section of the prompt says that it can call no other one.
    """
    if not request.must_call:
        return settings
    return settings.but(tool_choice="tool", tool=request.must_call) if able else settings.but(tool_choice="auto")
