"""With a key in the environment and nothing else, the terminal talks to the provider."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import pytest
import trio
import trustme

from agentrail.cli.settings.default_agent import USUAL, usual_model
from agentrail.models import PROVIDERS
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_events as openai
from tests.adapters.models.server import Server, serving, streaming
from tests.cli.talking import COMMAND, ENVIRONMENT
from tests.patience import PATIENCE

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("environment", "model"),
    [
        ({}, "demo"),
        ({"ANTHROPIC_API_KEY": " ", "HOME": "x"}, "demo"),
        ({"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}, "anthropic:claude-sonnet-5"),
        ({"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}, "openai:gpt-5.4"),
        ({"GOOGLE_API_KEY": KEY, "DEEPSEEK_API_KEY": KEY}, "gemini:gemini-flash-latest"),
        ({"OPENROUTER_API_KEY": KEY}, "openrouter:openrouter/auto"),
        ({"GROQ_API_KEY": KEY}, "demo"),
    ],
)
def test_the_first_provider_whose_key_is_there_is_talked_to(environment: dict[str, str], model: str) -> None:
    assert usual_model(environment.get) == model


def test_each_provider_that_may_be_chosen_needs_a_key() -> None:
    assert [name for name in USUAL if not PROVIDERS[name.partition(":")[0]].keys] == []


@asynccontextmanager
async def internet(server: Server, host: str, certificates: Path) -> AsyncIterator[dict[str, str]]:
    """Lead *host* to *server*, with a certificate that is valid; give the environment in which it is found.

    A proxy on the loopback stands for the internet: it is asked for a tunnel to the host, and is the host itself.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            partial(trio.serve_tcp, partial(tunnel, server, host, context), 0, host="127.0.0.1")
        )
        port = listeners[0].socket.getsockname()[1]
        yield {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "SSL_CERT_FILE": str(certificates)}
        nursery.cancel_scope.cancel()


async def tunnel(server: Server, host: str, context: ssl.SSLContext, stream: trio.SocketStream) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    assert data.startswith(f"CONNECT {host}:443 ".encode())
    await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
    outside = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
    inside = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with outside, inside, trio.open_nursery() as nursery:
        nursery.start_soon(pump, inside, outside)
        await pump(outside, inside)
        nursery.cancel_scope.cancel()


async def pump(source: trio.abc.ReceiveStream, target: trio.abc.SendStream) -> None:
    try:
        async for piece in source:
            await target.send_all(piece)
    except trio.BrokenResourceError:
        pass  # one side has gone, and so does the other


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "host", "saying", "target", "header"),
    [
        ("ANTHROPIC_API_KEY", "api.anthropic.com", anthropic.saying, "/v1/messages", "authorization"),
        ("OPENAI_API_KEY", "api.openai.com", openai.saying, "/v1/responses", "authorization"),
        (
            "GEMINI_API_KEY",
            "generativelanguage.googleapis.com",
            gemini.saying,
            "/v1beta/models/gemini-flash-latest:streamGenerateContent?alt=sse",
            "x-goog-api-key",
        ),
    ],
)
async def test_a_key_is_enough(
    tmp_path: Path, key: str, host: str, saying: Callable[..., bytes], target: str, header: str
) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            serving(streaming(saying("I am ", "the provider."))) as server,
            internet(server, host, tmp_path / "ca.pem") as leading,
        ):
            environment = {**ENVIRONMENT, **leading, key: KEY}
            done = await trio.run_process(
                [*COMMAND, "run", "Who are you?"],
                env=environment,
                stdin=DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == "I am the provider.\n"
    (request,) = server.asked
    assert (request.target, request.headers["host"]) == (target, host)
    assert request.headers[header].removeprefix("Bearer ") == KEY
