"""JSON Schema as we read it: draft 2020-12 for frozen JSON, and nothing is ever fetched.

Tuples are arrays, 1.0 is no integer, and `$schema` changes nothing. jsonschema is imported when it is first needed:
most tools are plain enough to do without it until a call is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, cast

from agentrail.tools.bounds import Pattern
from agentrail.values.json import Json

if TYPE_CHECKING:
    from jsonschema.protocols import Validator as Engine
    from referencing import Resource
    from referencing._core import Resolver
    from referencing.jsonschema import Schema

MAX_SCHEMAS: Final = 1_024


@lru_cache(maxsize=MAX_SCHEMAS)
def engine_for(schema: str) -> Engine:
    """Return what finds the errors of a value by *schema*, the canonical text of one."""
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema

    read = cast("dict[str, Json]", json.loads(schema))
    read.pop("$schema", None)  # where a reference leads back to it, it would bring in another dialect
    return _dialect()(read, registry=Registry())


def meta_engine() -> Engine:
    """Return what finds the errors of a schema."""
    dialect = _dialect()
    return dialect(dialect.META_SCHEMA)


def loose_ends(schema: Json) -> Iterator[str]:
    """Yield what of *schema* is well written and cannot be used: references out of it, patterns that are none."""
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - see above

    root: Resource[Schema] = DRAFT202012.create_resource(cast("Schema", schema))
    registry: Registry[Schema] = Registry()
    return _loose_in(root, registry.resolver_with_root(root))


def _loose_in(resource: Resource[Schema], resolver: Resolver[Schema]) -> Iterator[str]:
    said = resource.contents
    if isinstance(said, Mapping):
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in said and not _leads_somewhere(str(said[keyword]), resolver):
                yield f"`{keyword}` leads to `{said[keyword]}`, which is not in the schema"
        own = (said["pattern"],) if "pattern" in said else ()
        for pattern in (*own, *said.get("patternProperties", ())):
            flaw = Pattern(str(pattern)).flaw()
            if flaw is not None:
                yield f"the pattern `{pattern}` {flaw}"
    for inner in resource.subresources():
        if isinstance(inner.contents, Mapping) and "$schema" in inner.contents:
            yield "`$schema` stands below the top"
        yield from _loose_in(inner, resolver.in_subresource(inner))


def _leads_somewhere(target: str, resolver: Resolver[Schema]) -> bool:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - comes with jsonschema

    try:
        resolver.lookup(target)
    except Unresolvable:
        return False
    return True


def _is_array(_: object, found: object) -> bool:
    return isinstance(found, list | tuple)


def _is_integer(_: object, found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


@cache
def _dialect() -> type[Engine]:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see the top of the module
    from jsonschema.validators import extend  # noqa: PLC0415 # pyright: ignore[reportUnknownVariableType]  # it is untyped

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"array": _is_array, "integer": _is_integer})
    made = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]  # it is untyped
    return cast("type[Engine]", made)
