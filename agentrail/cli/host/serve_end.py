"""`agentrail serve end`: ends the shards of a cluster of Ray, which live on when nobody serves in front of them."""

from __future__ import annotations

from functools import partial

import trio

from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.output.exit_status import DONE, tell
from agentrail.errors import AgentrailError


def main(ray: str) -> int:
    """Park the sessions of all shards of the cluster at *ray*, end them, and return the exit status."""
    try:
        from agentrail.cluster import end_cluster  # noqa: PLC0415 - its extra need not be there

        trio.run(partial(end_cluster, ray=ray))
    except AgentrailError as error:
        tell(f"agentrail: {error}")
        return WRONG_USAGE
    print("the shards have ended; their sessions are in the journal")
    return DONE
