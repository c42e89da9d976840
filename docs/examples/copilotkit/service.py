"""A desk with CopilotKit's chat as its page, which has to be made first: `make copilotkit`.

Run it: `.venv/bin/uvicorn --app-dir docs/examples/copilotkit service:app`, and open http://127.0.0.1:8000.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from agentrail import SessionSpec, tool
from agentrail.host import Host, Identity, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import Element

PAGE = Path(__file__).parents[3] / "build" / "copilotkit" / "page"


@tool
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


def answer(request: ModelRequest) -> Element:
    """Stand in for a model: `pay NAME` calls the tool, and `count NUMBER` takes its time."""
    last = request.messages[-1]
    match last.text.split():
        case ["pay", name] if isinstance(last, UserMessage):
            return say("I pay.", calls=[call("pay", {"to": name})])
        case ["count", number] if isinstance(last, UserMessage):
            return say(" ".join(f"n{each}" for each in range(int(number))), delay=0.05)
        case _:
            return f"You said: {last.text}" if isinstance(last, UserMessage) else f"It is {last.text}."


class Anybody:
    """Whoever reaches this machine's own port. Yours asks who it is."""

    async def identify(self, headers: object) -> Identity:
        """Return who sends the request with *headers*."""
        return Identity("acme", "ann", frozenset({"talk", "decide"}))


model = ScriptedModel([answer], repeat_last=True)
desk = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
agents = Host([Profile("desk", desk)], authenticator=Anybody(), journal=SqliteJournal("desk.db")).asgi()


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[None]:
    """Hold the host open while the server runs."""
    async with agents:
        yield


routes = [Mount("/agents", agents), Mount("/", StaticFiles(directory=PAGE, html=True))]
app = Starlette(routes=routes, lifespan=lifespan)
