"""Whatever arguments fit the schema: a tool answers, and never raises."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict, cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.runtime.work.background_jobs import BackgroundJobs
from agentrail.sandboxes import MemorySandbox
from agentrail.tools import Effect, Err, Ok, ToolContext, validator_for
from tests.kit import freeze_object
from tests.tools.builtin.rig import TOOLS

pytestmark = pytest.mark.long

TEXTS: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["a.txt", ".", "docs", "docs/b", "**", "*", "(", "[a", "a{1,2}", "\\", "a{,}", "-a", "x\0"]),
)
KINDS: Final[Mapping[str, st.SearchStrategy[object]]] = {
    "string": TEXTS,
    "integer": st.integers(-1, 2**53),
    "boolean": st.booleans(),
    "array": st.lists(TEXTS, max_size=3),
}


class Schema(TypedDict, total=False):
    properties: Mapping[str, Mapping[str, object]]
    required: Sequence[str]


def _arguments(name: str) -> st.SearchStrategy[dict[str, object]]:
    schema = cast("Schema", TOOLS[name].spec.parameters)
    made: dict[str, st.SearchStrategy[object]] = {
        key: KINDS.get(str(one.get("type")), TEXTS) for key, one in schema.get("properties", {}).items()
    }
    required = schema.get("required", ())
    optional = {key: one for key, one in made.items() if key not in required}
    return st.fixed_dictionaries({key: made[key] for key in required}, optional=optional)


def _check(name: str) -> Callable[[], None]:
    tool = TOOLS[name]

    @settings(max_examples=60, deadline=None)
    @given(_arguments(name))
    def check(given_args: dict[str, object]) -> None:
        async def run() -> None:
            args = freeze_object(given_args)
            if validator_for(tool.spec)(args) is not None:
                return
            sandbox = MemorySandbox()
            await sandbox.write("a.txt", b"tea\nx\r\ny")
            await sandbox.write("docs/b", b"\xff\xfe")
            jobs = BackgroundJobs(None)  # type: ignore[arg-type]  # nothing is started: there is no shell
            result = await tool.execute(args, ToolContext(sandbox=sandbox, jobs=jobs))
            assert isinstance(result, Ok | Err | Effect)

        trio.run(run)

    return check


def test_the_tools_never_raise() -> None:
    for name in TOOLS:
        _check(name)()
