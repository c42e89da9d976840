"""Whole classes: what cattrs generates from the rules of their fields, and what stands in for it where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias, cast

import attrs
from cattrs import Converter, gen
from cattrs.gen import override

from agentrail.codec.hints import Field
from agentrail.codec.leaves import Rule

Written: TypeAlias = Callable[[object], dict[str, object]]
"""Writes the fields of an instance."""

Read: TypeAlias = Callable[[Mapping[str, object], type[object]], object]
"""Makes an instance of its fields; the class is told once more because cattrs wants it so."""

_CONVERTER: Final = Converter(detailed_validation=False)

_TAKEN: Final = frozenset({"attrs", "cl", "converter", "typevar_map"})
"""Names of fields that cattrs keeps for itself."""

# The one seam to cattrs: its generators are typed for a class that the checker knows, and here it never does.
_generate_writer: Final = cast("Callable[..., Written]", vars(gen)["make_dict_unstructure_fn_from_attrs"])
_generate_reader: Final = cast("Callable[..., Read]", vars(gen)["make_dict_structure_fn_from_attrs"])


def written_by(cls: type[object], rules: Mapping[str, Rule], left_out: Collection[str]) -> Written:
    """Return what writes the fields of *cls*, those *left_out* only if they are not as they are by default."""
    if not _is_generated(cls, rules):
        return lambda found: {name: rule(getattr(found, name)) for name, rule in rules.items()}
    overrides = {name: override(unstruct_hook=rule, omit_if_default=name in left_out) for name, rule in rules.items()}
    return _generate_writer(_declared(cls, rules), cls, _CONVERTER, _cattrs_use_linecache=False, **overrides)


def read_by(cls: type[object], fields: Mapping[str, Field], rules: Mapping[str, Rule]) -> Read:
    """Return what makes an instance of *cls* of its fields; what is not there is as it is by default."""
    if not _is_generated(cls, rules):
        return lambda found, _: cls(**{fields[name].alias: rules[name](found[name]) for name in rules if name in found})
    overrides = {name: override(struct_hook=rule) for name, rule in rules.items()}
    # The rules know the types of the fields, so those of a generic class make no difference.
    parameters = {parameter.__name__: object for parameter in getattr(cls, "__parameters__", ())}
    return _generate_reader(
        _declared(cls, rules), cls, _CONVERTER, parameters, _cattrs_use_linecache=False, **overrides
    )


def _is_generated(cls: type[object], rules: Mapping[str, Rule]) -> bool:
    return attrs.has(cls) and _TAKEN.isdisjoint(rules)


def _declared(cls: type[object], rules: Mapping[str, Rule]) -> list[object]:
    """Return the fields as cattrs wants them, without their hints, which it would resolve its own way."""
    return [one.evolve(type=object) for one in attrs.fields(cls) if one.name in rules]  # type: ignore[arg-type]
