"""`python -m agentrail`: the same as the command `agentrail`."""

from __future__ import annotations

import sys

from agentrail.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
