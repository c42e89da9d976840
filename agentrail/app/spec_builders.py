"""`Specs`: functions that build the specifications of stored sessions, whose code comes back with them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

from agentrail.app.spec import SessionSpec
from agentrail.core.vocabulary.state import State
from agentrail.errors import SpecMissing, WrongType
from agentrail.hooks.contract import ASYNC, indirect
from agentrail.values.foreign import named
from agentrail.values.json import JsonObject
from agentrail.values.value import Authored

SPEC_WANTED: Final = "a `SessionSpec`"
SPECS_WANTED: Final = "a function, async or not, that takes nothing or a `SpecWanted` and returns a `SessionSpec`"


class SpecWanted(Authored):
    """A stored session whose specification is to be built: what a function in `specs` may be told."""

    session_id: str
    """Id of the session."""
    name: str
    """Name of its specification."""
    tenant: str
    """Tenant of the session."""
    owner: str
    """Owner of the session."""
    user_data: JsonObject
    """User data of the specification that it was spawned with."""


Built: TypeAlias = SessionSpec | Awaitable[SessionSpec]

Specs: TypeAlias = Mapping[str, Callable[[], Built] | Callable[[SpecWanted], Built]]
"""Functions that build specifications, by the name of the specification; async or not.

A function that needs an argument is told of the session: see `SpecWanted`.
"""


def check_spec(spec: object) -> None:
    """Raise `WrongType` unless *spec* is a specification, and what it says of itself if it is not whole."""
    if not isinstance(spec, SessionSpec):
        raise WrongType.of("spec", spec, SPEC_WANTED)
    spec.check()


def check_builder(name: str, found: object) -> None:
    """Raise `WrongType` if *found*, which `specs` has under *name*, is no function that builds a specification."""
    if not callable(found):
        raise WrongType("specs", f"a `{named(found)}` under {name!r}", SPECS_WANTED)
    kind = indirect(found)
    if kind not in ("", ASYNC):
        raise WrongType("specs", f"a function that is {kind} under {name!r}", SPECS_WANTED)
    if not (_takes(found) or _takes(found, "the session")):
        raise WrongType("specs", f"a function that needs other arguments under {name!r}", SPECS_WANTED)


async def built(specs: Specs, stored: State) -> SessionSpec:
    """Return the specification of a stored session, built by its name; raise `SpecMissing` if nothing has that name."""
    setup = stored.setup
    build = cast("Callable[..., object] | None", specs.get(setup.spec))
    if build is None:
        raise SpecMissing(stored.session_id, setup.spec)
    wanted = SpecWanted(stored.session_id, setup.spec, setup.tenant, setup.owner, setup.user_data)
    spec = build() if _takes(build) else build(wanted)
    if isinstance(spec, Awaitable):
        spec = await cast("Awaitable[object]", spec)
    check_spec(spec)
    return cast("SessionSpec", spec)


def _takes(function: Callable[..., object], *given: object) -> bool:
    """Whether *function* can be called with what is *given*."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return not given
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
