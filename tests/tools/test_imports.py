import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import sys
from agentrail.tools import ToolContext, tool, validator_for

@tool
async def look(path: str, lines: int = 10) -> str:
    "Look."
    return path

assert validator_for(look.spec)({"path": "a", "lines": 3}) is None
assert not {"jsonschema", "referencing", "regex", "cattrs"} & sys.modules.keys()
assert validator_for(look.spec)({"path": 3}) == "`path`: found 3, wanted text"
loaded = set(sys.modules)
assert validator_for(look.spec)({"lines": 3}) == "`path` is missing, wanted text"
assert set(sys.modules) == loaded
assert "cattrs" not in sys.modules
"""


def test_a_check_imports_nothing() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)  # noqa: S603 - our own program
