"""What a built-in tool finds around it, and how it says what went wrong there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from agentrail.errors import AgentrailError, ToolError
from agentrail.ports.jobs import Jobs
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import ToolContext
from agentrail.ports.web import Web

MAX_TEXT = 28_000
"""Characters of an answer; a note of what is left out still fits behind it."""


def refuse(message: str) -> NoReturn:
    """Answer the model with an error."""
    raise ToolError(message)


@contextmanager
def told() -> Generator[None]:
    """Tell the model what the outside says; anything else is a crash of the call."""
    try:
        yield
    except ToolError:
        raise
    except AgentrailError as error:
        raise ToolError(str(error)) from error


def sandbox_of(ctx: ToolContext) -> Sandbox:
    """Return the sandbox of the call."""
    return (
        refuse("there is no sandbox here, so there are no files and commands") if ctx.sandbox is None else ctx.sandbox
    )


def jobs_of(ctx: ToolContext) -> Jobs:
    """Return what runs in the background of the call's session."""
    return refuse("nothing can run in the background here") if ctx.jobs is None else ctx.jobs


def web_of(ctx: ToolContext) -> Web:
    """Return how the call fetches pages."""
    return refuse("there is no way to the web here") if ctx.web is None else ctx.web


def shown(text: str, most: int) -> str:
    """Return *text* on at most *most* characters."""
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"


def counted(number: int, thing: str) -> str:
    """Return *number* and *thing*, in the plural where it is one."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
