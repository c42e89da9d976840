"""A person at a host, who approves the one call that waits: `python -m tests.docs.approving_person URL KEY`.

The program prints the calls that it has made in the package, each as a line with its time.
"""

from __future__ import annotations

import sys

import trio

from agentrail import connect
from tests.docs.traces import traced


async def approve(url: str, key: str) -> None:
    """Approve the first call that waits for this user."""
    async with connect(url, key=key) as supervisor:
        ((session_id, (held, *_)),) = (await supervisor.approvals()).items()
        await supervisor.session(session_id).approve(held)


def main() -> None:
    """Approve, and print the trace."""
    url, key = sys.argv[1:]
    with traced() as calls:
        trio.run(approve, url, key)
    sys.stdout.writelines(f"{call.at_ns} {call.function}\n" for call in calls)


if __name__ == "__main__":
    main()
