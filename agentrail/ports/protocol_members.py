"""Whether an object has what an optional protocol asks for, at the price of an attribute each.

`isinstance` with a runtime-checkable protocol would say the same, but Python 3.11 lists the members of the protocol
anew each time, which takes as long as a step of the machine.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar, cast

from typing_extensions import TypeForm, TypeIs, get_protocol_members

P = TypeVar("P")


def has_members(value: object, protocol: TypeForm[P]) -> TypeIs[P]:
    """Whether *value* has all members of *protocol*, in its class or of its own; one that is `None` is missing.

    Nothing is kept of *value* or its class: objects of one class may differ, and attributes may come and go.
    """
    for name in _members(cast("type", protocol)):  # noqa: SIM110 - a generator would take longer than the attributes
        if getattr(value, name, None) is None:
            return False
    return True


@cache  # of our own protocols alone, which are few
def _members(protocol: type) -> tuple[str, ...]:
    """Return the names of the members of *protocol*, in an order that does not change."""
    return tuple(sorted(get_protocol_members(protocol)))
