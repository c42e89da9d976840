"""The command `agentrail` on a system without unix sockets."""

import sys

from agentrail.cli import shared_host
from agentrail.cli.command import main

shared_host.HAS_UNIX_SOCKETS = False  # type: ignore[misc]
sys.exit(main())
