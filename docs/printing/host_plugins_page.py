"""The contract of host plugins as a table, for the page of the host."""

from __future__ import annotations

from agentrail.host.plugins.host_plugin import CONTRACT
from docs.printing.markdown import code, table


def rules() -> list[str]:
    """Return the table of the members of a host plugin: what the host does in each case."""
    header = ("member", "order", "an exception", "too late", "if critical", "a value of a wrong kind")
    rows = [
        (code(name), member.order or "", member.error or "", member.deadline or "", member.critical or "", member.wrong)
        for name, member in CONTRACT.items()
    ]
    return table(header, rows)
