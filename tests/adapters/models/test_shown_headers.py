"""The headers that `render` shows are those that a request brings to its provider: no more, and no fewer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import ModelError
from agentrail.models import PROVIDERS, Chunk, Json, Provider, render
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import Asked, refusing, serving
from tests.kit import freeze_object

SECRETS: Final = {"LAMP_TOKEN": "sk-0123456789abcdef", "OTHER": "sk-fedcba9876543210"}
OF_HTTP: Final = {"host", "connection", "content-length"}
"""What each request has by HTTP itself."""

OPTIONS: Final[Mapping[str, Mapping[str, Json]]] = {
    "none": {},
    "elsewhere": {"base_url": "{elsewhere}/beta"},
    "here": {"base_url": "{own}/beta"},
    "named": {"api_key": Secret("OTHER")},
    "named elsewhere": {"api_key": Secret("OTHER"), "base_url": "{elsewhere}"},
    "headers": {"headers": {"X-Team": "tea", "X-Key": Secret("OTHER"), "User-Agent": "mine"}},
    "headers elsewhere": {"headers": {"Authorization": Secret("OTHER")}, "base_url": "{elsewhere}"},
    "list": {"headers": {"anthropic-beta": "one"}},
}


def unheard(_: Chunk) -> None:
    """Nobody listens."""


def placed(options: Mapping[str, Json], own: str, elsewhere: str) -> dict[str, Json]:
    return {
        name: value.format(own=own, elsewhere=elsewhere) if isinstance(value, str) else value
        for name, value in options.items()
    }


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("keys", [("LAMP_KEY", "LAMP_TOKEN"), ()], ids=["keys", "no keys"])
@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai_chat", "gemini"])
async def test_what_is_shown_is_what_is_sent(
    wire: str, keys: tuple[str, ...], options: Mapping[str, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    http = Http()
    async with serving(refusing(400, b"{}")) as server:
        elsewhere = f"http://localhost:{server.port}"
        provider = Provider(wire, server.url, keys)
        monkeypatch.setitem(PROVIDERS, "lamp", provider)
        request = asked(user("hello"), model="lamp:small").but(
            options=freeze_object(placed(options, server.url, elsewhere))
        )
        with pytest.raises(ModelError):
            await RemoteModel("lamp:small", provider, http, SECRETS.get, Accounts()).stream(request, unheard)
        await http.close()
        rendered = render(request)
        assert _sent(server.asked[0]) == {name: _filled(value) for name, value in rendered.headers.items()}
        assert server.asked[0].body.decode() == rendered.body
        assert rendered.url.endswith(server.asked[0].target)


def _sent(request: Asked) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items() if name.lower() not in OF_HTTP}


def _filled(value: str) -> str:
    for name, secret in SECRETS.items():
        value = value.replace(f"${name}", secret)
    return value
