"""Calling the built-in tools as a session would: arguments are checked first, and an `Err` shows as a cross."""

from pathlib import Path

from agentrail.models import JsonObject
from agentrail.ports.tool import Jobs
from agentrail.sandboxes import LocalSandbox, Sandbox, Web
from agentrail.tools import Effect, Err, ToolContext, standard_tools, validator_for
from agentrail.values.content import text_of
from tests.kit import freeze_object

TOOLS = {tool.spec.name: tool for tool in standard_tools()}


async def call(
    name: str, given: Sandbox | Path | None = None, *, jobs: Jobs | None = None, web: Web | None = None, **args: object
) -> str:
    """Return the text that the model sees."""
    return await called(name, freeze_object(args), given, jobs=jobs, web=web)


async def called(
    name: str,
    frozen: JsonObject,
    given: Sandbox | Path | None = None,
    *,
    jobs: Jobs | None = None,
    web: Web | None = None,
) -> str:
    """Return the same for arguments that are in an object already."""
    tool = TOOLS[name]
    assert validator_for(tool.spec)(frozen) is None
    sandbox = LocalSandbox(given) if isinstance(given, Path) else given
    result = await tool.execute(frozen, ToolContext(call_id="call-1", sandbox=sandbox, jobs=jobs, web=web))
    assert not isinstance(result, Effect)
    text = text_of(result.content)
    assert len(text) <= tool.spec.max_result_chars
    return f"✗ {text}" if isinstance(result, Err) else text
