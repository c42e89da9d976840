"""No schema, and no argument, takes long: the steps are counted, and what takes too many is refused with the reason."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.errors import BadTool
from agentrail.models import Json, JsonObject
from agentrail.tools import ToolSpec, make_spec, validator_for
from agentrail.tools.json_schema.dialect import MAX_APPLIED, READY_STEPS
from agentrail.tools.json_schema.metered import ReadySchema
from agentrail.tools.json_schema.validation import MAX_LARGE, schema_problem
from agentrail.values.json import canonical
from agentrail.values.step_budget import CHECK_STEPS
from tests.kit import freeze_object
from tests.opcodes import counted_opcodes
from tests.profiles import CAMPAIGN
from tests.tools import hostile
from tests.tools.hostile import LARGE
from tests.tools.large_schemas import LARGE_SCHEMAS, SIZE

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = 0.5
"""Five times what a check may take; in CI what takes longer is counted, and only the campaign asserts the time."""
MOST_OPCODES: Final = 7_000_000
"""Instructions of the interpreter that making a schema ready, or a check, may take: the most is about 4,600,000."""
MOST_SECONDS: Final = 0.02
"""Seconds of CPU that reading a schema of 64 kB may take; more would hold up the sessions of others."""
MOST: Final = 60
"""Seconds of CPU after which the kernel ends the program that makes all the checks."""


def said_of(schema: JsonObject, args: dict[str, object]) -> str | None:
    return validator_for(ToolSpec("probe", "Look.", schema))(freeze_object(args, [LARGE]))


@pytest.mark.campaign
@pytest.mark.long
def test_no_case_takes_long() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.tools.hostile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST, MOST)),
    )
    taken = dict(line.split("\t") for line in ran.stdout.splitlines())
    assert taken.keys() == hostile.CASES.keys()
    slow = {name: times for name, times in taken.items() if max(map(float, times.split())) > SECONDS}
    assert {name: times for name, times in slow.items() if CAMPAIGN or opcodes_of(name) > MOST_OPCODES} == {}


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE_SCHEMAS)
def test_no_schema_of_64_kb_takes_long_to_read(name: str) -> None:
    """Some of them took 13 seconds of the event loop, as the time grew with the square of their ids and anchors."""
    schema = LARGE_SCHEMAS[name]()
    assert len(canonical(schema)) <= SIZE
    schema_problem(freeze_object({"type": "object", "not": {"pattern": "what is imported late"}}))
    with counted_opcodes() as counted:
        problem = schema_problem(schema)
    assert counted[0] < MOST_OPCODES
    assert problem is None or "$ref" in problem or problem == TOO_LARGE


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("name", LARGE_SCHEMAS)
def test_no_schema_of_64_kb_takes_20_milliseconds(name: str) -> None:
    schema = LARGE_SCHEMAS[name]()
    schema_problem(freeze_object({"type": "object", "not": {"pattern": "what is imported late"}}))
    gc.collect()
    begun = time.thread_time()
    schema_problem(schema)
    assert time.thread_time() - begun < MOST_SECONDS


def opcodes_of(name: str) -> int:
    """Return the instructions of what takes most of them, of all that is done with one case."""
    schema, args = hostile.CASES[name]()
    frozen = freeze_object(args, [LARGE])
    with counted_opcodes() as ready:
        schema_problem(schema)
    check = validator_for(ToolSpec("probe", "Look.", schema))
    with counted_opcodes() as checked:
        check(frozen)
    return max(ready[0], checked[0])


@pytest.mark.long
def test_what_a_slow_case_takes_is_counted() -> None:
    assert 1_000_000 < opcodes_of("many items, one twice") * 2 < MOST_OPCODES


REFUSED: Final = [
    "a pattern that takes too long",
    "many keys of one form",
    "many items, none twice",
    "many items, all wrong",
    "many patterns that backtrack",
    "a dynamic recursion",
    "three ways at each level",
]


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_too_many_steps_is_refused_with_the_reason(name: str) -> None:
    schema, args = hostile.CASES[name]()
    said = said_of(schema, dict(args))
    assert said is not None
    assert said.startswith(f"they cannot be checked (that takes more than {CHECK_STEPS} steps")
    assert "send less" in said


def test_a_pattern_that_backtracks_is_answered() -> None:
    schema, args = hostile.CASES["a pattern that backtracks"]()
    assert (said_of(schema, dict(args)) or "").startswith('`x`: found "aaaa')
    assert said_of(schema, {"x": "a b c"}) is None


TOO_LARGE: Final = f"making it ready takes more than {READY_STEPS} steps; make it smaller"
TOO_OFTEN: Final = f"it applies more than {MAX_APPLIED} schemas to one value; make it simpler"
RING: Final = "it applies a schema to a value again and again: its references form a ring"
UNUSABLE: Final = {
    "many schemas": TOO_LARGE,
    "many patterns": TOO_LARGE,
    "patterns that repeat": TOO_LARGE,
    "patterns without case": TOO_LARGE,
    "a chain of references": TOO_LARGE,
    "towers of allOf": TOO_OFTEN,
    "towers of anyOf": TOO_OFTEN,
    "towers of oneOf": TOO_OFTEN,
    "towers that are evaluated": TOO_OFTEN,
    "towers inside of not": TOO_OFTEN,
    "towers of dependent schemas": TOO_OFTEN,
    "many definitions": TOO_LARGE,
    "many ways in a pattern": TOO_LARGE,
    "its own reference": RING,
    "references in a ring": RING,
}


@pytest.mark.long
@pytest.mark.parametrize("name", UNUSABLE)
def test_a_schema_whose_checks_may_never_end_makes_no_tool(name: str) -> None:
    schema, args = hostile.CASES[name]()
    with pytest.raises(BadTool, match=UNUSABLE[name]):
        make_spec("probe", "Look.", schema)
    assert said_of(schema, dict(args)) == f"they cannot be checked ({UNUSABLE[name]})"


def test_what_was_found_before_the_steps_were_used_up_is_told() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"items": {"not": {"type": "string"}}}},
    }
    assert said_of(schema, {"x": 1, "y": [*range(20_000)]}) == "`x`: found 1, wanted text"


def test_much_that_is_plain_is_checked() -> None:
    edit: Json = {
        "type": "object",
        "properties": {
            "old": {"type": "string", "minLength": 1},
            "new": {"type": "string"},
            "line": {"type": "integer"},
        },
        "required": ["old", "new"],
        "additionalProperties": False,
    }
    schema = hostile.with_x({"type": "array", "items": edit})
    edits: list[object] = [{"old": "a", "new": "b", "line": n} for n in range(3_000)]
    assert said_of(schema, {"x": edits}) is None
    assert said_of(schema, {"x": [*edits[:800], {"old": ""}]}) == (
        "`x[800].new` is missing, wanted text; `x[800].old`: found 0 characters, wanted at least 1"
    )


@pytest.mark.long
@given(
    height=st.integers(1, 12),
    width=st.integers(1, 10),
    keyword=st.sampled_from(["allOf", "anyOf", "oneOf"]),
    fits=st.booleans(),
)
def test_towers_of_any_height_are_answered_or_refused(height: int, width: int, keyword: str, *, fits: bool) -> None:
    tower: dict[str, Json] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * width} for n in range(height)}
    defs: dict[str, Json] = {**tower, f"d{height}": {"type": "string" if fits else "integer"}}
    said = said_of(hostile.with_x(hostile.D0, **{"$defs": defs}), {"x": "a"})
    if said is None:
        assert fits
    else:
        assert not fits or keyword == "oneOf" or TOO_OFTEN in said


@pytest.mark.long
def test_many_large_schemas_are_not_all_kept() -> None:
    """A client may send another one with each prompt: 1,024 of 64 kB each took 2 GB."""
    schemas = [
        freeze_object({"type": "object", "not": {"enum": [f"{number}", {}]}, "title": "x" * 4_096})
        for number in range(100)
    ]
    gc.collect()
    before = len(ready_schemas())
    for schema in schemas:
        assert schema_problem(schema) is None
    assert len(ready_schemas()) - before <= MAX_LARGE


def ready_schemas() -> list[object]:
    """Return the schemas that are kept ready in this process."""
    gc.collect()
    return [found for found in gc.get_objects() if isinstance(found, ReadySchema)]
