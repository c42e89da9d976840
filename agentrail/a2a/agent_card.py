"""`agent_card`: how an agent of a host presents itself to clients of A2A: one document for protocols 1.0 and 0.3."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agentrail import __version__
from agentrail.a2a.shapes import Shape

WELL_KNOWN: Final = "/.well-known/agent-card.json"
"""Where clients look for a card, below the address that they are given."""

BEARER: Final = "bearer"
NO_SCOPES: Final[list[str]] = []
INPUTS: Final = ("text/plain", "application/json", "image/png", "image/jpeg", "application/pdf")
OUTPUTS: Final = ("text/plain", "application/json")


def agent_card(name: str, description: str, address: str, *, pushes: bool) -> Shape:
    """Return the card of the agent *name* at *address*, which sends push notifications if *pushes*."""
    skill = {"id": "chat", "name": name, "description": description, "tags": ["chat"]}
    # A scheme is written as both protocols have it: each leaves out the fields of the other.
    scheme = {"type": "http", "scheme": BEARER, "httpAuthSecurityScheme": {"scheme": "Bearer"}}
    return {
        "name": name,
        "description": description,
        "version": __version__,
        "protocolVersion": "0.3.0",
        "url": address,
        "preferredTransport": "JSONRPC",
        "supportedInterfaces": [
            {"url": address, "protocolBinding": "JSONRPC", "protocolVersion": version} for version in ("1.0", "0.3")
        ],
        "capabilities": {"streaming": True, "pushNotifications": pushes, "extendedAgentCard": False},
        "securitySchemes": {BEARER: scheme},
        "securityRequirements": [{"schemes": {BEARER: {"list": NO_SCOPES}}}],
        "security": [{BEARER: NO_SCOPES}],
        "defaultInputModes": list(INPUTS),
        "defaultOutputModes": list(OUTPUTS),
        "skills": [skill],
    }


def address_of(url: str, path: str, agent: str) -> str:
    """Return the address of *agent* at a host; that of the default one if it is empty."""
    return f"{url}{path}/{quote(agent, safe='')}" if agent else f"{url}{path}"
