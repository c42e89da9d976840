"""Whether arguments fit a schema, and if not, why."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from agentrail.tools.dialect import MAX_SCHEMAS, engine_for, loose_ends, meta_engine
from agentrail.tools.explaining import clipped, explain
from agentrail.tools.flat import flat_check
from agentrail.values.json import JsonObject, canonical
from agentrail.values.tools import ToolSpec

Validator: TypeAlias = Callable[[JsonObject], str | None]


def validator_for(spec: ToolSpec) -> Validator:
    """Return what says why arguments do not fit the schema of *spec*, or `None` if they do; it never raises."""
    return _validator(canonical(spec.parameters))


def schema_problem(parameters: JsonObject) -> str | None:
    """Say why *parameters* are no schema that the arguments of a call could be checked with."""
    schema = json.loads(canonical(parameters))
    problem = explain(meta_engine().iter_errors(schema))
    return min(loose_ends(schema), default=None) if problem is None else problem


@lru_cache(maxsize=MAX_SCHEMAS)
def _validator(schema: str) -> Validator:
    fits = flat_check(json.loads(schema))

    def check(args: JsonObject) -> str | None:
        if fits is not None and fits(args):
            return None
        try:
            return explain(engine_for(schema).iter_errors(args))
        except Exception as why:  # noqa: BLE001 - nothing that a schema or a value does may stop a session
            return f"they cannot be checked ({clipped(f'{type(why).__name__}: {why}', 200)})"

    return check
