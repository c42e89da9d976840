"""`without_newer_fields`: leaves out of JSON the fields that a newer version has added, so that this one can read it.

Values are read strictly, so that a mistake is met where it was made. What another host sends is no mistake: while a new
version is rolled out, it may have fields that this version does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias, TypeGuard

import msgspec.inspect

from agentrail.values.json import Json
from agentrail.values.value import learned

Object: TypeAlias = msgspec.inspect.StructType


@cache
def _shape(type_: object) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(learned(type_))


def without_newer_fields(type_: object, data: Json) -> Json:
    """Return *data* without the fields that *type_*, a class or union, and the classes in it do not have."""
    return _pruned(_shape(type_), data)


def _pruned(shape: msgspec.inspect.Type, data: Json) -> Json:
    match shape:
        case msgspec.inspect.Metadata():
            return _pruned(shape.type, data)
        case msgspec.inspect.UnionType():
            return _pruned_union(shape, data)
        case msgspec.inspect.StructType() if isinstance(data, Mapping):
            return _pruned_object(shape, data)
        case msgspec.inspect.DictType() if isinstance(data, Mapping):
            return {name: _pruned(shape.value_type, value) for name, value in data.items()}
        case msgspec.inspect.CollectionType() if _is_array(data):
            return tuple([_pruned(shape.item_type, item) for item in data])
        case msgspec.inspect.TupleType() if _is_array(data) and len(data) == len(shape.item_types):
            return tuple([_pruned(item_shape, item) for item_shape, item in zip(shape.item_types, data, strict=True)])
        case _:
            return data


def _pruned_object(shape: Object, data: Mapping[str, Json]) -> Json:
    types = {field.encode_name: field.type for field in shape.fields}
    fields = {name: _pruned(types[name], value) for name, value in data.items() if name in types}
    tag = shape.tag_field
    return {tag: data[tag], **fields} if tag is not None and tag in data else fields


def _pruned_union(shape: msgspec.inspect.UnionType, data: Json) -> Json:
    """Prune *data* by the one member of a union that it can be of; unchanged if that is not known."""
    if isinstance(data, Mapping):
        objects = [member for member in shape.types if isinstance(member, Object)]
        tagged = [member for member in objects if member.tag_field and data.get(member.tag_field) == member.tag]
        fitting: Sequence[msgspec.inspect.Type] = tagged or (objects if len(objects) == 1 else ())
        fitting = fitting or [member for member in shape.types if isinstance(member, msgspec.inspect.DictType)]
    else:
        collections = msgspec.inspect.CollectionType | msgspec.inspect.TupleType
        fitting = [member for member in shape.types if isinstance(member, collections)]
    return _pruned(fitting[0], data) if len(fitting) == 1 else data


def _is_array(data: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(data, list | tuple)
