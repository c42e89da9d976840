"""Values of any type that the codec knows, drawn from its type hints."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, TypeVar, cast, get_type_hints

from hypothesis import strategies as st

from agentrail.codec.plugin_states import storable
from agentrail.core.vocabulary.errors_as_data import ERRORS
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.errors import AgentrailError
from agentrail.events import UnknownEvent
from agentrail.models import History, Message
from agentrail.values.json import INT_MAX, INT_MIN
from tests.codec.plugin_states import STATES
from tests.codec.shapes import (
    MISSING,
    Choice,
    Chosen,
    Field,
    Instance,
    Items,
    Leaf,
    Row,
    Shape,
    Table,
    fields_of,
    shape_of,
)
from tests.kit import Refused, freeze, freeze_object

T = TypeVar("T")
Values = st.SearchStrategy[object]

texts: Final = st.text(max_size=12)
ints: Final = st.integers(INT_MIN, INT_MAX)
floats: Final = st.floats(allow_nan=False, allow_infinity=False)
scalars: Final = st.none() | st.booleans() | ints | floats | texts
jsons: Final = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
).map(freeze)
objects: Final = st.dictionaries(texts, jsons, max_size=3).map(freeze_object)

_LEAVES: Final[dict[Leaf, Values]] = {
    Leaf.NOTHING: st.none(),
    Leaf.BOOL: st.booleans(),
    Leaf.INT: ints,
    Leaf.FLOAT: floats,
    Leaf.TEXT: texts,
    Leaf.JSON: jsons,
    Leaf.OBJECT: objects,
    Leaf.STATE: st.deferred(lambda: st.sampled_from(STATES).flatmap(of).filter(_is_storable)),
}

_instances: Final[dict[type[object], Values]] = {}


def a(cls: type[T]) -> st.SearchStrategy[T]:
    """Draw instances of *cls*."""
    return cast("st.SearchStrategy[T]", of(cls))


def of(hint: object) -> Values:
    """Draw values of *hint*."""
    return _shaped(shape_of(hint))


def error(cls: type[AgentrailError]) -> st.SearchStrategy[AgentrailError]:
    """Draw errors of a class."""
    if cls.__init__ is AgentrailError.__init__:
        return st.lists(jsons, max_size=2).map(lambda given: cls(*given))
    hints = get_type_hints(cls.__init__)
    facts = [jsons if hint is object else of(hint) for name, hint in hints.items() if name != "return"]
    return st.tuples(*facts).map(lambda given: cls(*given))


def _is_storable(state: object) -> bool:
    return storable(state) is None


def _shaped(shape: Shape) -> Values:
    match shape:
        case Leaf():
            return _LEAVES[shape]
        case Chosen(options=options):
            return st.sampled_from([means for _, means in options])
        case Items(container=container, item=item):
            items = st.lists(of(item), max_size=2)
            if container is History:
                return items.map(lambda given: History(cast("list[Message]", given)))
            if container is CallList:
                return items.map(lambda given: CallList(cast("list[Call]", given)))
            return items.map(frozenset if container is frozenset else tuple)
        case Row(items=hints):
            return st.tuples(*(of(hint) for hint in hints))
        case Table(item=item):
            return st.dictionaries(texts, of(item), max_size=2).map(MappingProxyType)
        case Instance(cls=cls):
            return _instance(cls)
        case Choice(shapes=shapes, optional=optional):
            chosen = st.sampled_from(shapes).flatmap(_shaped)
            return st.none() | chosen if optional else chosen


def _instance(cls: type[object]) -> Values:
    if cls not in _instances:
        if cls is UnknownEvent:
            _instances[cls] = st.builds(UnknownEvent, texts | st.just("AgentStart"), objects | _tagged)
        elif cls is Refused:
            _instances[cls] = st.sampled_from(sorted(ERRORS)).flatmap(lambda name: error(ERRORS[name])).map(Refused.of)
        else:
            _instances[cls] = st.deferred(lambda: _made_of(cls, fields_of(cls)))
    return _instances[cls]


_tagged: Final = st.just(freeze_object({"$": "AgentStart", "ref": "p1"}))


def _made_of(cls: type[object], fields: tuple[Field, ...]) -> Values:
    needed = {field.alias: of(field.hint) for field in fields if field.default is MISSING}
    others = {field.alias: of(field.hint) for field in fields if field.default is not MISSING}
    return st.fixed_dictionaries(needed, optional=others).map(lambda given: cls(**given))
