"""What a marked tool gets beside its arguments: a `ToolContext` whose parts can be used in the loop of the program."""

from __future__ import annotations

from functools import partial

import attrs

from agentrail.bridge.host_loop import HostLoop
from agentrail.ports.tool import ToolContext


def on_loop(ctx: ToolContext, host: HostLoop) -> ToolContext:
    """Return *ctx* for code in the loop of *host*."""

    def report(update: str) -> None:
        """Report progress, on Trio."""
        host.post(partial(ctx.report, update))

    return attrs.evolve(ctx, report=report)
