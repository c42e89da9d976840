import subprocess
import sys

PROGRAM = """
import sys
from agentrail.tools import ToolContext, tool, validator_for

@tool
async def look(path: str, lines: int = 10) -> str:
    "Look."
    return path

assert validator_for(look.spec)({"path": "a", "lines": 3}) is None
assert not {"jsonschema", "referencing", "cattrs"} & sys.modules.keys()
assert validator_for(look.spec)({"path": 3}) == "`path`: found 3, wanted text"
assert "jsonschema" in sys.modules
"""


def test_a_plain_tool_does_without_jsonschema_until_a_call_is_refused() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)  # noqa: S603 - our own program
