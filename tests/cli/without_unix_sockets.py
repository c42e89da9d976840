"""The command `agentrail` on a system without unix sockets."""

import sys

from agentrail.cli.command import main
from agentrail.cli.host import shared_host

setattr(shared_host, "HAS_UNIX_SOCKETS", False)  # noqa: B010 - it is another module's name
sys.exit(main())
