"""Makes, for one class, the function that writes an instance as JSON text, and the function that makes one from JSON.

Both must be fast: every journal record is written, and rebuilding a session reads thousands of values. So the functions
for our own values are generated as source code, which checks the common types (text and numbers) without a call. Other
classes are read by functions that cattrs generates.
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
from agentrail.values.value import Value, names_by_place, quick

Written: TypeAlias = Callable[[object], str]
"""A function that returns the fields of an instance as the text of a JSON object."""

_CONVERTER: Final = Converter(detailed_validation=False)

FACTORY: Final = type(cast("object", attrs.Factory(dict[str, str])))
"""Class of the default of a field whose default is made anew for each instance."""

WIDEST: Final = 16
"""The most fields of a class whose reader is compiled; wider classes are read too rarely for compilation to pay off."""

_TAKEN: Final = frozenset({"attrs", "cl", "converter", "typevar_map"})
"""Names that a field cannot have in a class that cattrs reads, because its generated code uses them."""

_Read: TypeAlias = Callable[[object, type[object]], object]
"""A function that makes an instance from a mapping with the right keys; cattrs wants the class as second argument."""

# Cast, as the generator's type needs a class that the type checker knows, and here the class is known at run time only.
_generate_reader: Final = cast("Callable[..., _Read]", vars(gen)["make_dict_structure_fn_from_attrs"])


class Alone(NamedTuple):
    """The field is written in one way, whatever the type of its value."""

    writer: Writer
    """Function that writes the value; its errors hold the field's path."""
    in_line: str
    """Expression that writes the value `{it}`; it calls `{writer}` only in uncommon cases."""


class ByType(NamedTuple):
    """The field's value, or each of its items, is written in a way that depends on its type.

    Errors of the writers do not hold the path; `written_by` adds it.
    """

    writers: Mapping[type[object], Writer]
    """The function that writes values of a type, by type."""
    holders: frozenset[type[object]] = frozenset()
    """Types that the field's value may have if its items are written one by one; none if the value is written whole."""


class Part(NamedTuple):
    """How one field is written."""

    name: str
    """Name of the field, in the class and in JSON."""
    how: Alone | ByType
    """How the value of the field is written."""
    default: object = MISSING
    """Value at which the field is left out of the JSON; `MISSING` if it is always written."""


def written_by(parts: Sequence[Part], head: Mapping[str, Json]) -> Written:
    """Generate and return the function that writes *head* and then the fields *parts* of an instance.

    In the generated code, `at` is the path of the field that is being written, and `row` the list of its items written
    so far: both are for errors of a writer that does not know its path.
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
    """Return the source lines that write *part*, and the expression that holds its text after them."""
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
    """Function that reads the value of the field; its errors hold the field's path."""
    in_line: str
    """Expression that reads the value `{it}`; it calls `{rule}` only in uncommon cases."""


def read_by(cls: type[object], parts: Mapping[str, Given]) -> Rule:
    """Return the function that makes an instance of *cls* from JSON; a missing key means the field's default."""
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
    """Return the error for a *cls* that raised *why*; it leaves out the text of *why*, which may hold a secret."""
    return MisfitError("", f"is refused by `{cls.__name__}` ({type(why).__name__})")


def _needed(parts: Mapping[str, Given]) -> frozenset[str]:
    return frozenset(name for name, part in parts.items() if part.field.default is MISSING)


def _refusal(cls: type[object], parts: Mapping[str, Given]) -> Callable[[Mapping[str, object]], MisfitError]:
    """Return the function that makes the error for an object whose keys do not fit *cls*."""

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
    """Generate and return the function that reads *cls*; it counts the keys it knows, to detect unknown ones."""
    known: dict[str, object] = {
        **KNOWN,
        "MISSING": MISSING,
        "cls": cls,
        "make": quick(cls),
        "name": cls.__name__,
        "one_cls": one(cls),
    }
    known |= {"misfits": (MisfitError, RecursionError), "wrong": wrong, "MAPPINGS": MAPPINGS}
    known |= {"unfit": _refusal(cls, parts), "refused": _refused}
    in_order = tuple(parts) == names_by_place(cls)
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
        by_name = "" if in_order else f"{part.field.alias}="  # by position is faster
        makes += f"            {by_name}{taken},\n"
    code = (
        f"def read(found, _=None):\n    if type(found) is not dict and type(found) not in MAPPINGS:\n"
        f"        raise wrong('', found, one_cls)\n    count = {len(_needed(parts))}\n"
        f"    if '{TAG}' in found:\n        if found['{TAG}'] != name:\n            raise unfit(found)\n"
        f"        count += 1\n"
        f"    try:\n{needed}        pass\n    except KeyError:\n        raise unfit(found) from None\n"
        f"{others}    if count != len(found):\n        raise unfit(found)\n"
        f"    try:\n        return make(\n{makes}        )\n"
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
    # cattrs wants a type for each parameter of a generic class; any will do, because the rules check the fields.
    parameters = {parameter.__name__: object for parameter in getattr(cls, "__parameters__", ())}
    return _generate_reader(
        _declared(cls, parts), cls, _CONVERTER, parameters, _cattrs_use_linecache=False, **overrides
    )


def _is_generated(cls: type[object], parts: Mapping[str, Given]) -> bool:
    return attrs.has(cls) and _TAKEN.isdisjoint(parts)


def _declared(cls: type[object], parts: Mapping[str, Given]) -> list[object]:
    """Return the fields for cattrs, all hinted as `object`, so that it does not resolve their hints itself."""
    return [one.evolve(type=object) for one in attrs.fields(cls) if one.name in parts]  # type: ignore[arg-type]
