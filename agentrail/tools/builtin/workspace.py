"""Shared by the built-in tools: access to the call's sandbox, jobs and web, and how errors are shown to the model."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from agentrail.errors import AgentrailError, ToolError
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import Jobs, ToolContext, Web

MAX_TEXT = 28_000
"""The most characters of an answer; a note on what was left out still fits after it."""


def refuse(message: str) -> NoReturn:
    """Raise `ToolError`: the model gets *message* as the error of its call."""
    raise ToolError(message)


@contextmanager
def report_errors() -> Generator[None]:
    """Within this block, turn each `AgentrailError` into a `ToolError`, which the model gets; others pass unchanged."""
    try:
        yield
    except ToolError:
        raise
    except AgentrailError as error:
        raise ToolError(str(error)) from error


def sandbox_of(ctx: ToolContext) -> Sandbox:
    """Return the sandbox of the call; raise `ToolError` if there is none."""
    return (
        refuse("there is no sandbox here, so there are no files and commands") if ctx.sandbox is None else ctx.sandbox
    )


def jobs_of(ctx: ToolContext) -> Jobs:
    """Return the background commands of the call's session; raise `ToolError` if it cannot have any."""
    return refuse("nothing can run in the background here") if ctx.jobs is None else ctx.jobs


def web_of(ctx: ToolContext) -> Web:
    """Return the web port of the call; raise `ToolError` if there is none."""
    return refuse("there is no way to the web here") if ctx.web is None else ctx.web


def cut_text(text: str, most: int) -> str:
    """Return *text*, cut to *most* characters with a note of how many are left out."""
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"


def counted(number: int, thing: str) -> str:
    """Return *number* and *thing*, with a plural `s` unless the number is 1."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
