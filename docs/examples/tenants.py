"""An agent that is another one for each tenant: its tools, its plugins and its limits follow from who asks.

Make a key for somebody, then run it:

    agentrail serve keys make keys.txt acme ann
    agentrail serve docs/examples/tenants.py
"""

from __future__ import annotations

import os
from typing import Final

from attrs import frozen

from agentrail import SessionSpec, tool
from agentrail.host import ApiKeys, Host, Profile, RequestContext
from agentrail.journals import SqliteJournal
from agentrail.plugins import BudgetGuard, HumanApproval


@tool
async def read_file(path: str) -> str:
    """Read a file (this one only says so)."""
    return f"{path} is empty"


@tool
async def write_file(path: str, content: str) -> str:
    """Write a file (this one only says so)."""
    return f"wrote {path}"


@frozen
class Contract:
    """What a tenant has agreed on."""

    may_write: bool
    tokens: int


CONTRACTS: Final = {"acme": Contract(may_write=True, tokens=1_000_000)}
OTHERS: Final = Contract(may_write=False, tokens=50_000)


async def contract_of(tenant: str) -> Contract:
    """Return the contract of a tenant; in your program, this asks a database."""
    return CONTRACTS.get(tenant, OTHERS)


async def build(context: RequestContext) -> SessionSpec:
    """Build the sessions of a tenant.

    It is called for a new session, and again when a stored one comes back: then `context.kind` is `none`, and tenant
    and user are those of its owner.
    """
    contract = await contract_of(context.tenant_id)
    budget = BudgetGuard(max_tokens=contract.tokens)
    if contract.may_write:
        return SessionSpec(model="demo", tools=[read_file, write_file], plugins=[HumanApproval(), budget])
    return SessionSpec(model="demo", tools=[read_file], plugins=[budget])


host = Host(
    [Profile("files", build)],
    authenticator=ApiKeys(os.environ.get("DESK_KEYS", "keys.txt")),
    journal=SqliteJournal(os.environ.get("DESK_JOURNAL", "desk.db")),
)
