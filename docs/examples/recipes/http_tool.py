"""A tool that calls a service over HTTP: what fails is told to the model in words that it can act on.

The tool only reads, so it is `pure` and is tried again if the connection breaks. The pattern keeps the model to
currencies: without it, `../admin` would be a path of the service too. Here the service runs in the same program, on
loopback.

    1 EUR is 1.1 USD
    there is no currency `XXX`; give one like EUR
    the arguments do not fit `rate`: `currency`: found "../admin", wanted text that matches `^[A-Z]{3}$`
"""

from __future__ import annotations

from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Annotated

import httpx
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Pattern, Tool, ToolError

RATES = {"EUR": "1.1"}


class Rates(BaseHTTPRequestHandler):
    """The service: `GET /EUR` says what a Euro is worth."""

    def do_GET(self) -> None:
        rate = RATES.get(self.path[1:])
        self.send_response(404 if rate is None else 200)
        self.end_headers()
        self.wfile.write((rate or "").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def rate_tool(client: httpx.AsyncClient) -> Tool:
    """Return the tool, which uses *client*: one for all calls, so connections are used again."""

    @tool(effect="pure", timeout=20, requires={"network"})
    async def rate(currency: Annotated[str, Pattern("^[A-Z]{3}$")]) -> str:
        """Say what a currency is worth in US dollars."""
        answer = await client.get(f"/{currency}")
        if answer.status_code == 404:
            raise ToolError(f"there is no currency `{currency}`; give one like EUR")
        answer.raise_for_status()
        return f"1 {currency} is {answer.text} USD"

    return rate


async def main() -> None:
    """Serve the rates, and let a model ask for three."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Rates)
    Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True).start()
    asks = [call("rate", {"currency": name}) for name in ("EUR", "XXX", "../admin")]
    url = f"http://127.0.0.1:{server.server_port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client, open_supervisor() as supervisor:
        model = ScriptedModel([say(calls=asks), "A Euro is 1.1 dollars."])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[rate_tool(client)]))
        await session.ask("What is a Euro worth?")
        for message in session.messages()[2:5]:
            print(message.text)
    server.shutdown()
    server.server_close()


trio.run(main)
