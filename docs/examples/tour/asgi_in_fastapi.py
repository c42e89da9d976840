"""A host in an app of FastAPI: its routes are below `/agents`, and its sessions beside those of the app.

The app says who may talk, and under which names it can be reached. A server runs it: `uvicorn asgi_in_fastapi:app`.

    Lisbon is by the sea.
    the app sees 1 session
    without a name: 401
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

from agentrail import SessionSpec, aio
from agentrail.errors import NotAuthenticated
from agentrail.host import Host, Identity, Profile
from agentrail.testing import ScriptedModel


class Users:
    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        name = dict(headers).get("x-user")  # yours looks at a cookie, or at a token
        if name is None:
            raise NotAuthenticated("no name was given")
        return Identity("acme", name, frozenset({"talk"}))


host = Host([Profile("desk", SessionSpec(model=ScriptedModel(["Lisbon is by the sea."])))], authenticator=Users())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with (
        aio.open_supervisor() as app.state.supervisor,
        host.asgi(app.state.supervisor, hosts=["desk.example.com"]) as agents,
    ):
        app.mount("/agents", agents)
        yield


app = FastAPI(lifespan=lifespan)


async def main() -> None:
    url, transport = "https://desk.example.com", httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=url) as client:
        message = {"message": "Where is Lisbon?", "session": "trip"}
        response = await client.post("/agents/v1/chat", json=message, headers={"X-User": "ann"})
        print(response.json()["text"])
        print("the app sees", len(app.state.supervisor.sessions()), "session")
        print("without a name:", (await client.post("/agents/v1/chat", json=message)).status_code)


if __name__ == "__main__":
    asyncio.run(main())
