"""Tokens that a provider has not counted, taken from the characters, so that what was used is never nothing."""

from __future__ import annotations

from agentrail.values.json import weight
from agentrail.values.stream import CHARS_PER_TOKEN, ModelRequest, Response
from agentrail.values.usage import Usage


def read_tokens(request: ModelRequest) -> int:
    """Return about how many tokens *request* has, the schemas of its tools included."""
    tools = sum(len(tool.name) + len(tool.description) + weight(tool.parameters) for tool in request.tools)
    return tokens(request.size + tools)


def with_read(usage: Usage, request: ModelRequest) -> Usage:
    """Return *usage* with what the model has read, if the provider has not counted that."""
    if usage.input_tokens:
        return usage
    return usage.but(input_tokens=read_tokens(request), estimated=True)


def counted(response: Response, request: ModelRequest) -> Response:
    """Return *response* with what the provider has not counted of its usage, marked as estimated."""
    usage = with_read(response.usage, request)
    if not usage.output_tokens and (written := _written(response)):
        usage = usage.but(output_tokens=tokens(written), estimated=True)
    return response if usage is response.usage else response.but(usage=usage)


def _written(response: Response) -> int:
    said = sum(len(part.text) for part in response.parts)
    return said + sum(len(call.name) + weight(call.args) for call in response.calls)


def tokens(characters: int) -> int:
    """Return how many tokens so many *characters* are taken for."""
    return -(-characters // CHARS_PER_TOKEN)
