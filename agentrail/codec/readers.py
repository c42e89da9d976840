"""Makes the functions that turn JSON into values, from type hints: nothing is coerced, ignored or guessed.

A missing key means the field's default. An unknown key, a value of another type, and a class that is not in the union
are errors. Two exceptions let this version read what a newer one wrote: an event of an unknown class, and an envelope
of a newer version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from operator import length_hint
from types import MappingProxyType
from typing import Final, cast

from agentrail.codec.classes import Given, read_by
from agentrail.codec.envelopes import foreseen, row_reader
from agentrail.codec.faults import ERRORS, facts_of
from agentrail.codec.hints import Field, fields_of
from agentrail.codec.leaves import LEAVES, Rule, wrong
from agentrail.codec.lines import read_in_line
from agentrail.codec.misfit import TAG, MisfitError, shortened
from agentrail.codec.shapes import Choice, Chosen, Instance, Items, Leaf, Row, Shape, Table, named, shape_of
from agentrail.codec.states import ENVELOPE_VERSION, FROZENSET, MAPPINGS, SCALARS, Stored
from agentrail.errors import AgentrailError
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.plugins import UnknownEvent
from agentrail.values.json import Json, JsonObject

STATE_CLASSES: Final[ContextVar[Mapping[str, object]]] = ContextVar("STATE_CLASSES")
"""The classes of plugin states that the caller of `decode` knows, by `module:name`; others are read as `Stored`."""

KNOWN_EVENTS: Final = frozenset(cls.__name__ for cls in EVENTS)


_of_classes: Final[dict[type[object], Rule]] = {}
_facts: Final[dict[type[object], Rule]] = {}


def reader_for(hint: object, at: str = "") -> Rule:
    """Return the function that reads a value of type *hint*; *at* is the value's path, for errors."""
    try:
        return _for_shape(shape_of(hint), at)
    except MisfitError as misfit:
        misfit.under(at)
        raise


def _for_shape(shape: Shape, at: str) -> Rule:
    match shape:
        case Leaf.STATE:
            return _state(at)
        case Leaf.ERROR:
            return _error(at)
        case Leaf():
            return LEAVES[shape](at)
        case Chosen():
            return _chosen(shape, at)
        case Items(container=container, item=item):
            if item is Envelope:
                return row_reader(_instance(Envelope, ""), reader_for(Event, ".event"), at)
            read_item, each = _for_each(item), shape_of(item)
            if isinstance(each, Choice) and each.tagged and container is not frozenset:
                return _tagged_items(container, Rules(each, read_item), read_item, at)
            return _items(container, read_item, at)
        case Row(items=items):
            return _row(tuple(reader_for(item, f"[{place}]") for place, item in enumerate(items)), at)
        case Table(item=item):
            return _table(_for_each(item), at)
        case Instance(cls=cls):
            return _instance(cls, at)
        case Choice():
            return _choice(shape, at)


def _for_each(hint: object) -> Rule:
    """Return the function that reads one item; if there can be none, the error's path is `[]`, for every item."""
    try:
        return reader_for(hint)
    except MisfitError as misfit:
        misfit.under("[]")
        raise


def _object(found: object, at: str, wanted: str) -> Mapping[str, object]:
    if type(found) is dict or type(found) in MAPPINGS:
        return cast("Mapping[str, object]", found)
    raise wrong(at, found, wanted)


def _array(found: object, at: str) -> list[object]:
    if type(found) is list or type(found) is tuple:
        return cast("list[object]", found)
    raise wrong(at, found, "an array")


def _chosen(shape: Chosen, at: str) -> Rule:
    meant = {(type(plain), plain): means for plain, means in shape.options}

    def read_chosen(found: object, _: object = None) -> object:
        if type(found) not in SCALARS:
            raise wrong(at, found, named(shape))
        try:
            return meant[type(found), found]
        except KeyError:
            raise MisfitError(at, f"is no member of `{shape.name}`") from None

    return read_chosen


def _items(container: type[object], read_item: Rule, at: str) -> Rule:
    make = cast("Callable[[Iterable[object]], Collection[object]]", container)

    def read_items(found: object, _: object = None) -> object:
        given = _array(found, at)
        left = iter(given)
        try:
            made = make(map(read_item, left))
        except MisfitError as misfit:
            misfit.under(f"{at}[{len(given) - length_hint(left) - 1}]")
            raise
        if container is frozenset and len(made) != len(given):
            raise MisfitError(at, "holds the same thing twice")
        return made

    return read_items


def _tagged_items(container: type[object], rules: Mapping[str, Rule], otherwise: Rule, at: str) -> Rule:
    """Return a fast reader of items that name their class: it picks the item's reader by that name.

    *otherwise* reads items without the name. A history has thousands of items.
    """
    make = cast("Callable[[list[object]], object]", container)

    def read_items(found: object, _: object = None) -> object:
        if type(found) is not list and type(found) is not tuple:
            raise wrong(at, found, "an array")
        made: list[object] = []
        try:
            for each in cast("list[dict[str, object]]", found):
                tag = each.get(TAG) if type(each) is dict else None
                made.append((rules[tag] if type(tag) is str else otherwise)(each))
        except MisfitError as misfit:
            misfit.under(f"{at}[{len(made)}]")
            raise
        return make(made)

    return read_items


def _row(readers: tuple[Rule, ...], at: str) -> Rule:
    def read_row(found: object, _: object = None) -> object:
        items = _array(found, at)
        if len(items) != len(readers):
            raise MisfitError(at, f"holds {len(items)} things where {len(readers)} are wanted")
        try:
            return tuple([read_item(item) for read_item, item in zip(readers, items, strict=True)])
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return read_row


def _table(read_item: Rule, at: str) -> Rule:
    def read_table(found: object, _: object = None) -> object:
        items: dict[str, object] = {}
        key: object = None
        given = _object(found, at, "an object")
        try:
            for key, item in given.items():
                items[cast("str", _key(key))] = read_item(item)
        except MisfitError as misfit:
            misfit.under(f"{at}[{shortened(repr(key))}]")
            raise
        return MappingProxyType(items)

    return read_table


def _state(at: str) -> Rule:
    def read_state(found: object, _: object = None) -> object:
        try:
            return _read_state(_object(found, "", "the state of a plugin"))
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return read_state


def _read_state(found: Mapping[str, object]) -> object:
    """Return the plugin state as a value if its class is known, else as `Stored`, or as JSON if it needs no class."""
    if "data" not in found or not found.keys() <= {"class", "data"}:
        raise MisfitError("", "has other keys than `class` and `data`")
    data = cast("Json", _anything(found["data"]))
    if "class" not in found:
        return data
    name = cast("str", _name(found["class"]))
    if name == FROZENSET:
        return reader_for(frozenset[Json], ".data")(data)
    wanted = STATE_CLASSES.get({}).get(name)
    return Stored(name, data) if wanted is None else reader_for(wanted, ".data")(data)


def _error(at: str) -> Rule:
    def read_error(found: object, _: object = None) -> object:
        given = _object(found, at, "an error")
        name = given.get("error")
        cls = ERRORS.get(name) if type(name) is str else None
        if cls is None or set(given) != {"error", "facts"}:
            raise MisfitError(at, "is no error of ours")
        try:
            facts = (_facts.get(cls) or _make_facts(cls))(given["facts"])
        except MisfitError as misfit:
            misfit.under(at)
            raise
        return cls(*cast("tuple[object, ...]", facts))

    return read_error


def _make_facts(cls: type[AgentrailError]) -> Rule:
    """Make, and store in `_facts`, the function that reads the arguments of *cls*."""
    hints = facts_of(cls)
    shape = Items(tuple, Json) if hints is None else Row(hints)
    _facts[cls] = rule = _for_shape(shape, ".facts")
    return rule


_SPECIAL: Final = frozenset[type[object]]({UnknownEvent, Envelope})


def _instance(cls: type[object], at: str) -> Rule:
    if cls is UnknownEvent:
        return _unknown(at)
    if cls is Envelope:
        return _envelope(at)
    return _fields(cls, at)


def _fields(cls: type[object], at: str) -> Rule:
    rule: Rule | None = None

    def read_fields(found: object, _: object = None) -> object:
        nonlocal rule
        try:
            if rule is None:
                rule = _of_class(cls)
            return rule(found)
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return read_fields


def _of_class(cls: type[object]) -> Rule:
    """Return the function that reads instances of *cls*; it is made once per class."""
    rule = _of_classes.get(cls)
    if rule is None:
        rule = _of_classes[cls] = read_by(cls, {field.name: _given(field) for field in fields_of(cls)})
    return rule


def _given(field: Field) -> Given:
    at = f".{field.name}"
    try:
        shape = shape_of(field.hint)
        return Given(field, _for_shape(shape, at), read_in_line(shape))
    except MisfitError as misfit:
        misfit.under(at)
        raise


class Rules(dict[str, Rule]):
    """Readers of the classes of a choice, by class name; each is made at its first use. Other names get *otherwise*."""

    def __init__(self, shape: Choice, otherwise: Rule) -> None:
        super().__init__()
        self._classes = {each.cls.__name__: each.cls for each in shape.shapes if isinstance(each, Instance)}
        self._otherwise = otherwise

    def __missing__(self, tag: str) -> Rule:
        cls = self._classes.get(tag)
        if cls is None:
            return self._otherwise
        self[tag] = rule = _instance(cls, "") if cls in _SPECIAL else _of_class(cls)
        return rule


def _unknown(at: str) -> Rule:
    """Return the function that reads an event of a class this version does not know, as `UnknownEvent`."""
    read_known = _fields(UnknownEvent, "")

    def read_unknown(found: object, _: object = None) -> object:
        try:
            given = _object(found, "", "an event")
            kind = _tag(given.get(TAG))
            if kind == UnknownEvent.__name__:
                return read_known(given)
            if kind in KNOWN_EVENTS:
                raise MisfitError("", "is another class where an `UnknownEvent` is wanted")  # noqa: TRY301
            body = _anything({key: item for key, item in given.items() if key != TAG})
        except MisfitError as misfit:
            misfit.under(at)
            raise
        return UnknownEvent(cast("str", kind), cast("JsonObject", body))

    return read_unknown


def _envelope(at: str) -> Rule:
    read_event, read_fields = reader_for(Event, ".event"), _fields(Envelope, "")

    def read_envelope(found: object, _: object = None) -> object:
        try:
            given = dict(_object(found, "", "an envelope"))
            version = given.pop("v", None)
            if type(version) is not int or version < ENVELOPE_VERSION:
                raise MisfitError(".v", "is no version of an envelope")  # noqa: TRY301
            return read_fields(given if version == ENVELOPE_VERSION else foreseen(given, read_event))
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return read_envelope


def _choice(shape: Choice, at: str) -> Rule:
    by_tag: dict[str, Rule] = {}
    by_kind: dict[type[object], Rule] = {}
    tagged = shape.tagged
    for each in shape.shapes:
        rule = _for_shape(each, at)
        if isinstance(each, Instance) and tagged and by_tag.setdefault(each.cls.__name__, rule) is not rule:
            raise MisfitError("", f"may be one of two classes called `{each.cls.__name__}`")
        for kind in _kinds_of(each, tagged=tagged):
            if by_kind.setdefault(kind, rule) is not rule:
                raise MisfitError("", f"may be {named(shape)}, which look alike in JSON")
    if Leaf.INT not in shape.shapes and float in by_kind:
        by_kind[int] = by_kind[float]
    if shape.optional:
        by_kind[type(None)] = LEAVES[Leaf.NOTHING](at)

    def read_choice(found: object, _: object = None) -> object:
        kind = type(found)
        rule = by_kind.get(kind)
        if kind is dict or kind in MAPPINGS:
            tag = cast("Mapping[str, object]", found).get(TAG)
            rule = (by_tag.get(tag) if type(tag) is str else None) or by_kind.get(dict)
            if rule is None and by_tag:
                tag_at = f"{at}.{TAG}"
                raise MisfitError(tag_at, f"does not name {named(shape)}")
        if rule is None:
            raise wrong(at, found, named(shape))
        return rule(found)

    return read_choice


def _kinds_of(shape: Shape, *, tagged: bool) -> tuple[type[object], ...]:
    """Return the Python types of the JSON of *shape*; none for a class told by its tag (*tagged*)."""
    match shape:
        case Leaf():
            return _LEAF_KINDS[shape]
        case Chosen(options=options):
            return tuple({type(plain) for plain, _ in options})
        case Items() | Row():
            return (list, tuple)
        case Instance(cls=cls):
            return () if tagged and cls is not UnknownEvent else (dict,)
        case Table():
            return (dict,)
        case Choice(shapes=shapes):
            return tuple(kind for each in shapes for kind in _kinds_of(each, tagged=tagged))


_LEAF_KINDS: Final[Mapping[Leaf, tuple[type[object], ...]]] = {
    Leaf.NOTHING: (type(None),),
    Leaf.BOOL: (bool,),
    Leaf.INT: (int,),
    Leaf.FLOAT: (float,),
    Leaf.TEXT: (str,),
    Leaf.JSON: (bool, int, float, str, list, tuple, dict),
    Leaf.OBJECT: (dict,),
    Leaf.STATE: (dict,),
    Leaf.ERROR: (dict,),
    Leaf.UNSET: (),
}

_anything: Final = LEAVES[Leaf.JSON]("")
_name: Final = LEAVES[Leaf.TEXT]("")
_tag: Final = LEAVES[Leaf.TEXT](f".{TAG}")
_key: Final = LEAVES[Leaf.TEXT]("")
