"""The table of the scopes that each method of a handle needs, from the table of calls."""

from __future__ import annotations

from agentrail.api.operation_table import CALLS
from docs.printing.markdown import code, codes, table


def scopes() -> list[str]:
    """Return the table: by scope, the methods of handles whose calls need it."""
    found: dict[tuple[str, str], list[str]] = {}
    for call in CALLS.values():
        if call.scope is not None:
            methods = (call.name,) if call.methods is None else call.methods
            found.setdefault((call.scope, call.others or ""), []).extend(methods)
    rows = [
        (code(own), code(others) if others else "", codes(sorted(set(names))))
        for (own, others), names in sorted(found.items(), reverse=True)
        if names
    ]
    return table(("scope", "for sessions of other users", "methods"), rows)
