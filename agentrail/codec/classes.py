"""Whole classes: one function that writes the fields of a class, and one that cattrs makes to read them.

Every record of the journal is written and few are read again. So what writes is made of source, with the common case of
each field in its line: a text that is one and a number that fits need no call to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import attrs
from cattrs import Converter, gen
from cattrs.gen import override

from agentrail.codec.hints import MISSING, Field
from agentrail.codec.leaves import Rule
from agentrail.codec.lines import KNOWN, Writer
from agentrail.codec.text import to_text
from agentrail.values.json import Json

Written: TypeAlias = Callable[[object], str]
"""Writes the fields of an instance, as the text of a JSON object."""

Read: TypeAlias = Callable[[Mapping[str, object], type[object]], object]
"""Makes an instance of its fields; the class is told once more because cattrs wants it so."""

_CONVERTER: Final = Converter(detailed_validation=False)

_TAKEN: Final = frozenset({"attrs", "cl", "converter", "typevar_map"})
"""Names of fields that cattrs keeps for itself."""

# The one seam to cattrs: its generator is typed for a class that the checker knows, and here it never does.
_generate_reader: Final = cast("Callable[..., Read]", vars(gen)["make_dict_structure_fn_from_attrs"])


class Part(NamedTuple):
    """How one field is written."""

    name: str
    """What it is called, in the class and in JSON."""
    writer: Writer
    """What writes it."""
    in_line: str
    """What writes it where that is quicker: an expression of `{it}` and `{writer}`."""
    default: object = MISSING
    """What it is if it is left out; `MISSING`: it never is."""


def written_by(parts: Sequence[Part], head: Mapping[str, Json]) -> Written:
    """Return what writes *parts* of an instance behind *head*."""
    known: dict[str, object] = dict(KNOWN)
    lines = ["def written(found):", "    text = ''"]
    sure = "".join(f",{to_text(key)}:{to_text(item)}" for key, item in head.items())
    for place, part in enumerate(parts):
        it, writer, default = f"it_{place}", f"writer_{place}", f"default_{place}"
        known[writer], known[default] = part.writer, part.default
        lines.append(f"    {it} = found.{part.name}")
        piece = f',"{part.name}":{{{part.in_line.format(it=it, writer=writer)}}}'
        if part.default is MISSING:
            sure += piece
            continue
        lines += [f"    text += f'{sure}'"] if sure else []
        lines.append(f"    if {it} is not {default} and {it} != {default}:")
        lines.append(f"        text += f'{piece}'")
        sure = ""
    lines.append(f"    text += f'{sure}'")
    exec("\n".join((*lines, "    return '{' + text[1:] + '}'")), known)  # noqa: S102 - names of fields
    return cast("Written", known["written"])


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
