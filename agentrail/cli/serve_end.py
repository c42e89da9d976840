"""`agentrail serve end`: ends the shards of a cluster of Ray, which live on when nobody serves in front of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import trio

from agentrail.cli.serve_options import WRONG_USAGE, ServeParser
from agentrail.errors import AgentrailError


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments *argv*, and return the exit code."""
    parser = ServeParser(prog="agentrail serve end", description="Park the sessions of all shards, and end them.")
    parser.add_argument("--ray", metavar="ADDRESS", required=True, help="where Ray is; or `auto`")
    address: str = parser.parse_args(argv).ray
    try:
        from agentrail.cluster import end_cluster  # noqa: PLC0415 - its extra need not be there

        trio.run(partial(end_cluster, ray=address))
    except AgentrailError as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    print("the shards have ended; their sessions are in the journal")
    return 0
