"""The table of the scopes that each method of a handle needs, read off its code and the table of calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import cast

from agentrail.remote.remote_events import RemoteMonitor
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.wire.operation_table import CALLS
from docs.printing.markdown import code, codes, table


def scopes() -> list[str]:
    """Return the table: by scope, the methods of handles whose calls need it."""
    found: dict[tuple[str, str], list[str]] = {}
    for owner in (RemoteSupervisor, RemoteSession):
        for name, function in vars(owner).items():
            if not name.startswith("_") and isinstance(function, FunctionType):
                found.setdefault(_needs(owner, function), []).append(name)
    rows = [
        (code(own), code(others) if others else "", codes(sorted(set(names))))
        for (own, others), names in sorted(found.items(), reverse=True)
        if own
    ]
    return table(("scope", "for sessions of other users", "methods"), rows)


def _needs(owner: type, function: FunctionType) -> tuple[str, str]:
    """Return the scope that the first call of *function* needs, and that for sessions of other users."""
    name = next(_calls(owner, function), None)
    row = None if name is None else CALLS[name]
    return ("", "") if row is None or row.scope is None else (row.scope, row.others or "")


def _calls(owner: type, function: FunctionType) -> Iterator[str]:
    """Return the names of calls in the code of *function*, then those in what it calls of this package."""
    yield from (each for each in function.__code__.co_consts if isinstance(each, str) and each in CALLS)
    for name in function.__code__.co_names:
        used: object = inspect.getattr_static(owner, name, function.__globals__.get(name))
        if isinstance(used, FunctionType) and used.__module__.startswith("agentrail.remote.") and used is not function:
            yield from _calls(owner, used)
        elif used is RemoteMonitor:
            yield from _calls(RemoteMonitor, cast("FunctionType", RemoteMonitor.wait))
