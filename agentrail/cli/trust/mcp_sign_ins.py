"""`agentrail mcp`: a person signs in at MCP servers, sees where they are signed in, and signs out."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import trio

from agentrail.adapters.extras import need_extra
from agentrail.adapters.mcp.oauth import OAuth
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.token_file import SignedIn, TokenFile, signed_in_servers
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.screen import clean, iso_time
from agentrail.cli.trust.settings_code import server_in
from agentrail.cli.trust.trust_question import ask_about
from agentrail.cli.trust.trust_store import settings_of
from agentrail.errors import AgentrailError, FileFailed

SECOND: Final = 1_000
"""Milliseconds."""


def login(server: str, account: str, issuer: str, folder: Path | None) -> int:
    """Have the person sign in at *server*, a name in the settings of *folder* or a URL; return the exit status."""
    need_extra("mcp", "mcp", "sign in at an MCP server")
    described = _described(server, account, issuer, folder or Path())
    auth = described.auth
    if auth is None or auth.without_person:
        raise BadInputError(f"nobody signs in at `{described.name}`: its settings have no `auth` of a person")
    from agentrail.adapters.mcp.login import sign_in  # noqa: PLC0415 - it imports the package `mcp`

    def show(page: str) -> None:
        host, page_host = urlsplit(described.url).netloc, urlsplit(page).netloc
        print(clean(f"The MCP server at {host} wants you to sign in at {page_host}. Open this page in your browser:"))
        print(clean(f"\n  {page}\n"), flush=True)

    trio.run(sign_in, described, show)
    print(clean(f"signed in: {described.url}"))
    return DONE


def logout(server: str, account: str, folder: Path | None) -> int:
    """Delete the tokens of *server*, and return the exit status."""
    file = TokenFile.of(_described(server, account, "", folder or Path()))
    if not file.delete():
        print(clean(f"not signed in: {file.server}"))
        return FAILED
    print(clean(f"deleted: the tokens of {file.server}; the server is not told"))
    return DONE


def list_sign_ins() -> int:
    """Print where this user is signed in, and return the exit status."""
    servers = list(signed_in_servers())
    if not servers:
        tell("agentrail: you are signed in at no MCP server; `agentrail mcp login SERVER` signs in")
    for file, signed_in in servers:
        state = str(signed_in) if isinstance(signed_in, FileFailed) else _state(signed_in)
        print(clean(f"{file.server}{f' ({file.account})' if file.account else ''}: {state}"))
    return DONE


def _state(signed_in: SignedIn) -> str:
    if not signed_in.access_token:
        return "signed out"
    if signed_in.ends_at is None:
        return "signed in"
    until = iso_time(int(signed_in.ends_at * SECOND))
    if signed_in.is_over:
        return f"ended at {until}; {'renewed at its next use' if signed_in.can_refresh else 'sign in again'}"
    return f"signed in until {until}{', then renewed' if signed_in.can_refresh else ''}"


def _described(server: str, account: str, issuer: str, folder: Path) -> McpServer:
    """Return the server that is a URL, or has its name in the settings of *folder*, with *account* and *issuer*."""
    try:
        if "://" in server:
            return McpServer(url=server, auth=OAuth(account=account, issuer=issuer))
        settings = settings_of(folder, ask_about)
        if settings is None or server not in settings.servers:
            raise BadInputError(f"the settings of {str(folder)!r} name no MCP server `{server}`; give its URL")
        described = server_in(settings, server)
        if described.auth is None or account or issuer:
            raise BadInputError(
                f"`mcp.{server}` has its own `auth` or none; change it there, or give the URL of the server"
            )
    except BadInputError:
        raise
    except AgentrailError as error:
        raise BadInputError(str(error)) from error
    return described
