"""The command `agentrail` on a system without unix sockets."""

import sys

from agentrail.cli import shared_host
from agentrail.cli.command import main

setattr(shared_host, "HAS_UNIX_SOCKETS", False)  # noqa: B010 - it is another module's name
sys.exit(main())
