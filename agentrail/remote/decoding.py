"""Makes of what a host answers the values that local handles give back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar, cast

from agentrail.api import views
from agentrail.api.session_values import Asking, Background, ChildView, Compacting, HeldCall
from agentrail.codec.values import decode
from agentrail.errors import BadData, HostFailed
from agentrail.ports.journal import About, StoredSession
from agentrail.ports.tool import Task
from agentrail.values.json import Json
from agentrail.values.usage import Usage
from agentrail.values.value import Value

T = TypeVar("T")
V = TypeVar("V", bound=Value)

_VALUES: Final[Mapping[type[Value], type[Value]]] = MappingProxyType(
    {
        views.AskingView: Asking,
        views.BackgroundView: Background,
        views.ChildShown: ChildView,
        views.CompactingView: Compacting,
        views.HeldView: HeldCall,
        views.TaskView: Task,
        views.UsageView: Usage,
    }
)
"""The class of the value that a view in another was made of; its fields have the same names."""


def answer_of(wanted: type[T], found: Json) -> T:
    """Return what a call has given, as *wanted*; raise `HostFailed` if it is something else."""
    try:
        return decode(wanted, found)
    except BadData as bad:
        _, at, problem = bad.args
        said = f"its answer cannot be read: {at} {problem}"
        raise HostFailed(said) from None


def value_of(wanted: type[V], shown: Value, **more: object) -> V:
    """Return the value that a view *shown* was made of; *more* are fields that it has not."""
    names = [name for name in wanted.__struct_fields__ if hasattr(shown, name)]
    return wanted(**{**{name: _inner(getattr(shown, name)) for name in names}, **more})


def _inner(shown: object) -> object:
    """Return a field of a view as the value has it."""
    if isinstance(shown, tuple):
        return tuple(map(_inner, cast("tuple[object, ...]", shown)))
    wanted = _VALUES.get(type(shown)) if isinstance(shown, Value) else None
    return shown if wanted is None else value_of(wanted, cast("Value", shown))


def stored_of(shown: views.SessionView) -> StoredSession:
    """Return the summary of a session; its tenant is not told."""
    about = About("", shown.owner, shown.agent, shown.title, shown.labels, shown.created)
    return StoredSession(
        shown.session,
        shown.records,
        due=shown.due,
        at_work=shown.at_work,
        ended=shown.ended,
        problem=shown.problem,
        about=about,
        active=shown.active,
    )
