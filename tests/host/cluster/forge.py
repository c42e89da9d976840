"""A process that makes hosts: it has imported what they need, so that each is there at once.

`python -m tests.host.cluster.forge` forks one for each line of its standard input, a JSON object with its
environment and its arguments of `agentrail serve`, and says the id of its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import cast

import tests.host.deployed.desk
from agentrail.adapters.journals.postgres import postgres_dialect, postgres_writer
from agentrail.cli.command import main as run
from agentrail.host import host_server
from agentrail.plugins import HumanApproval
from tests.recovery import shared

IMPORTED = (postgres_dialect, postgres_writer, host_server, HumanApproval, shared, tests.host.deployed.desk)


def live(line: str) -> None:
    """Be a host."""
    facts = cast("dict[str, object]", json.loads(line))
    os.environ.update(cast("dict[str, str]", facts["env"]))
    log = os.open("serve.log", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 2)
    os.dup2(log, 1)
    sys.argv = ["agentrail", "serve", *cast("list[str]", facts["args"])]
    sys.exit(run())


def main() -> None:
    """Make hosts until the standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how one has ended
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            try:
                live(line)
            finally:
                os._exit(1)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
