"""Whole classes: one function that writes the fields of a class, and one that reads them.

Every record of the journal is written, and a session that comes back reads thousands of values at once. So what writes
and what reads our own values is made of source, with the common case of each field in its line: a text that is one and
a number that fits need no call to say so. Classes of others are read by what cattrs makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import attrs
from cattrs import Converter, gen
from cattrs.gen import override

from agentrail.codec.hints import MISSING, Field
from agentrail.codec.leaves import Rule, wrong
from agentrail.codec.lines import KNOWN, Writer
from agentrail.codec.misfit import TAG, MisfitError, one, shortened
from agentrail.codec.states import MAPPINGS
from agentrail.codec.text import to_text
from agentrail.values.json import Json
from agentrail.values.value import Value

Written: TypeAlias = Callable[[object], str]
"""Writes the fields of an instance, as the text of a JSON object."""

_CONVERTER: Final = Converter(detailed_validation=False)

FACTORY: Final = type(cast("object", attrs.Factory(dict[str, str])))
"""What stands for a default that is made anew each time."""

WIDEST: Final = 16
"""Fields up to which source is worth compiling: of the widest classes, a session that comes back reads one each."""

_TAKEN: Final = frozenset({"attrs", "cl", "converter", "typevar_map"})
"""Names of fields that cattrs keeps for itself."""

_Read: TypeAlias = Callable[[object, type[object]], object]
"""Makes an instance of a mapping that has its keys; the class is told once more because cattrs wants it so."""

# The one seam to cattrs: its generator is typed for a class that the checker knows, and here it never does.
_generate_reader: Final = cast("Callable[..., _Read]", vars(gen)["make_dict_structure_fn_from_attrs"])


class Alone(NamedTuple):
    """One way to write it, whatever it is."""

    writer: Writer
    """What writes it; a misfit says where in the instance that is."""
    in_line: str
    """What writes it where that is quicker: an expression of `{it}` and `{writer}`."""


class ByType(NamedTuple):
    """Another way for each type that it, or each of its items, may have; a misfit does not say where that is."""

    writers: Mapping[type[object], Writer]
    """What writes a value of a type."""
    holders: frozenset[type[object]] = frozenset()
    """The types of what may hold items; none: it is no row of them."""


class Part(NamedTuple):
    """How one field is written."""

    name: str
    """What it is called, in the class and in JSON."""
    how: Alone | ByType
    """What writes it."""
    default: object = MISSING
    """What it is if it is left out; `MISSING`: it never is."""


def written_by(parts: Sequence[Part], head: Mapping[str, Json]) -> Written:
    """Return what writes *parts* of an instance behind *head*.

    `at` says which part is being written, and `row` what there is of its items: a misfit in there does not know it.
    """
    known: dict[str, object] = {**KNOWN, "MisfitError": MisfitError, "wrong": wrong}
    lines = ["text, at, row = '', '', None", "try:"]
    begins = bool(head) or bool(parts and parts[0].default is MISSING)
    sure, before = "", "{{" if begins else ","
    for key, item in head.items():
        sure, before = f"{sure}{before}{to_text(key)}:{to_text(item)}", ","
    for place, part in enumerate(parts):
        known |= {f"how_{place}": part.how[0], f"holders_{place}": part.how[1], f"default_{place}": part.default}
        makes, made = _made(part, place)
        piece, before = f'{before}"{part.name}":{{{made}}}', ","
        lines.append(f"    it_{place} = found.{part.name}")
        if part.default is MISSING:
            lines += [f"    {line}" for line in makes]
            sure += piece
            continue
        lines += [f"    text += f'{sure}'"] if sure else []
        lines.append(f"    if it_{place} is not default_{place} and it_{place} != default_{place}:")
        lines += [f"        {line}" for line in (*makes, f"text += f'{piece}'")]
        sure = ""
    lines.append(f"    return text + f'{sure}}}}}'" if begins else f"    return '{{' + (text + f'{sure}')[1:] + '}}'")
    lines += [
        "except MisfitError as misfit:",
        "    misfit.under(at if row is None else f'{at}[{len(row)}]')",
        "    raise",
    ]
    exec("\n    ".join(("def written(found):", *lines)), known)  # noqa: S102 - names of fields
    return cast("Written", known["written"])


def _made(part: Part, place: int) -> tuple[list[str], str]:
    """Return the lines that make the text of *part*, and the expression that is the text then."""
    it, how, at = f"it_{place}", f"how_{place}", f"at = '.{part.name}'"
    match part.how:
        case Alone(in_line=in_line):
            return [], in_line.format(it=it, writer=how)
        case ByType(holders=holders) if not holders:
            return [at, f"{it} = {how}[type({it})]({it})", "at = ''"], it
        case ByType():
            return [
                at,
                f"if type({it}) not in holders_{place}:",
                f"    raise wrong('', {it}, 'a tuple')",
                "row = []",
                f"for each in {it}:",
                f"    row.append({how}[type(each)](each))",
                f"{it} = '[' + ','.join(row) + ']'",
                "at, row = '', None",
            ], it


class Given(NamedTuple):
    """How one field is read."""

    field: Field
    """The field."""
    rule: Rule
    """What reads it; a misfit says where in the instance that is."""
    in_line: str
    """What reads it where that is quicker: an expression of `{it}` and `{rule}`."""


def read_by(cls: type[object], parts: Mapping[str, Given]) -> Rule:
    """Return what makes an instance of *cls* of its fields; what is not there is as it is by default."""
    is_wide = len(parts) > WIDEST
    if (
        issubclass(cls, Value)
        and not is_wide
        and not any(isinstance(part.field.default, FACTORY) for part in parts.values())
    ):
        return _read_by_source(cls, parts)
    read = _read_by_cattrs(cls, parts) if _is_generated(cls, parts) and not is_wide else _read_by_name(cls, parts)
    unfit = _refusal(cls, parts)
    known = frozenset({TAG, *parts})
    needed = _needed(parts)

    def read_fitting(found: object, _: object = None) -> object:
        if type(found) is not dict and type(found) not in MAPPINGS:
            raise wrong("", found, one(cls))
        given = cast("Mapping[str, object]", found)
        if not needed <= given.keys() <= known or given.get(TAG, cls.__name__) != cls.__name__:
            raise unfit(given)
        try:
            return read(given, cls)
        except (MisfitError, RecursionError):
            raise
        except Exception as why:
            raise _refused(cls, why) from why

    return read_fitting


def _refused(cls: type[object], why: Exception) -> MisfitError:
    """Return what to say if *cls* raises: what it says may name a secret, so that stays in the chain of causes."""
    return MisfitError("", f"is refused by `{cls.__name__}` ({type(why).__name__})")


def _needed(parts: Mapping[str, Given]) -> frozenset[str]:
    return frozenset(name for name, part in parts.items() if part.field.default is MISSING)


def _refusal(cls: type[object], parts: Mapping[str, Given]) -> Callable[[Mapping[str, object]], MisfitError]:
    """Return what says why something with other keys is no instance of *cls*."""

    def unfit(found: Mapping[str, object]) -> MisfitError:
        strangers = sorted(shortened(key) for key in found.keys() - {TAG, *parts})
        if strangers:
            return MisfitError("", f"has keys that `{cls.__name__}` does not know: {', '.join(strangers)}")
        if found.get(TAG, cls.__name__) != cls.__name__:
            return MisfitError("", f"is another class where a `{cls.__name__}` is wanted")
        lacking = sorted(_needed(parts) - found.keys())
        return MisfitError("", f"lacks {', '.join(f'`{key}`' for key in lacking)}")

    return unfit


def _read_by_source(cls: type[Value], parts: Mapping[str, Given]) -> Rule:
    """Write what reads a value of ours: all keys are told from others by their number, before anything is read."""
    known: dict[str, object] = {**KNOWN, "MISSING": MISSING, "cls": cls, "name": cls.__name__, "one_cls": one(cls)}
    known |= {"misfits": (MisfitError, RecursionError), "wrong": wrong, "MAPPINGS": MAPPINGS}
    known |= {"unfit": _refusal(cls, parts), "refused": _refused}
    in_order = tuple(parts) == cls.__fields__ and not any(field.kw_only for field in cls.__attrs_attrs__)
    needed, others, makes = "", "", ""
    for place, part in enumerate(parts.values()):
        it, rule, default, name = f"it_{place}", f"rule_{place}", f"default_{place}", part.field.name
        known[rule], known[default] = part.rule, part.field.default
        taken = part.in_line.format(it=it, rule=rule)
        if part.field.default is MISSING:
            needed += f"        {it} = found['{name}']\n"
        else:
            others += f"    if '{name}' in found:\n        {it} = found['{name}']\n        count += 1\n"
            others += f"    else:\n        {it} = MISSING\n"
            taken = f"{default} if {it} is MISSING else {taken}"
        by_name = "" if in_order else f"{part.field.alias}="  # which is slower
        makes += f"            {by_name}{taken},\n"
    code = (
        f"def read(found, _=None):\n    if type(found) is not dict and type(found) not in MAPPINGS:\n"
        f"        raise wrong('', found, one_cls)\n    count = {len(_needed(parts))}\n"
        f"    if '{TAG}' in found:\n        if found['{TAG}'] != name:\n            raise unfit(found)\n"
        f"        count += 1\n"
        f"    try:\n{needed}        pass\n    except KeyError:\n        raise unfit(found) from None\n"
        f"{others}    if count != len(found):\n        raise unfit(found)\n"
        f"    try:\n        return cls(\n{makes}        )\n"
        f"    except misfits:\n        raise\n    except Exception as why:\n        raise refused(cls, why) from why\n"
    )
    exec(code, known)  # noqa: S102 - names of fields
    return cast("Rule", known["read"])


def _read_by_name(cls: type[object], parts: Mapping[str, Given]) -> _Read:
    def read(found: object, _: type[object]) -> object:
        given = cast("Mapping[str, object]", found)
        return cls(**{part.field.alias: part.rule(given[name]) for name, part in parts.items() if name in given})

    return read


def _read_by_cattrs(cls: type[object], parts: Mapping[str, Given]) -> _Read:
    overrides = {name: override(struct_hook=part.rule) for name, part in parts.items()}
    # The rules know the types of the fields, so those of a generic class make no difference.
    parameters = {parameter.__name__: object for parameter in getattr(cls, "__parameters__", ())}
    return _generate_reader(
        _declared(cls, parts), cls, _CONVERTER, parameters, _cattrs_use_linecache=False, **overrides
    )


def _is_generated(cls: type[object], parts: Mapping[str, Given]) -> bool:
    return attrs.has(cls) and _TAKEN.isdisjoint(parts)


def _declared(cls: type[object], parts: Mapping[str, Given]) -> list[object]:
    """Return the fields as cattrs wants them, without their hints, which it would resolve its own way."""
    return [one.evolve(type=object) for one in attrs.fields(cls) if one.name in parts]  # type: ignore[arg-type]
