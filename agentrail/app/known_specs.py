"""`KnownSpecs`: the specifications that a supervisor has spawned lately, so that their next sessions cost less."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from agentrail.app.spec import SessionSpec, stays_valid
from agentrail.lazy import LazyModule
from agentrail.values.newest import Newest

if TYPE_CHECKING:
    from agentrail.app import build, spec_template
    from agentrail.app.spec_template import SpecTemplate
    from agentrail.core.vocabulary.state import State
    from agentrail.ports.model import Model
    from agentrail.runtime.resources import SessionCode
else:  # imported at the first use, so that importing this module is quick
    build = LazyModule("agentrail.app.build")
    spec_template = LazyModule("agentrail.app.spec_template")

MOST: Final = 64
"""How many specifications are known: those that came last."""


class KnownSpecs:
    """What is known of each specification, as long as the program keeps it: it is checked, and what it comes to.

    A specification in which a program may change what was checked is never known.
    """

    def __init__(self, model_of: Callable[[str], Model]) -> None:
        self._model_of = model_of
        self._by_id: Newest[int, _KnownSpec] = Newest(MOST)

    def has(self, spec: SessionSpec) -> bool:
        """Whether *spec* was spawned before, and is still as it was then."""
        entry = self._by_id.get(id(spec))
        return entry is not None and (entry.template is None or entry.template.fits(spec))

    def add(self, spec: SessionSpec) -> None:
        """Note that *spec* was checked."""
        if stays_valid(spec):
            key = id(spec)
            self._by_id[key] = _KnownSpec(weakref.ref(spec, partial(self._forget, key)))

    def session(self, session_id: str, spec: SessionSpec) -> tuple[State, SessionCode]:
        """Return the first state and the code of a new session of *spec*; from the second on, they are copies."""
        entry = self._by_id.get(id(spec))
        if entry is None:
            return build.new_session(session_id, spec, self._model_of)
        if entry.is_new:
            entry.is_new = False
            return build.new_session(session_id, spec, self._model_of)
        if entry.template is None:
            entry.template = spec_template.SpecTemplate(spec, self._model_of)
        return entry.template.session(session_id, spec)

    def _forget(self, key: int, _: weakref.ref[SessionSpec]) -> None:
        """Forget a specification that the program keeps no more: another object may get its id."""
        self._by_id.pop(key, None)


class _KnownSpec:
    """What is known of one specification."""

    __slots__ = ("is_new", "ref", "template")

    def __init__(self, ref: weakref.ref[SessionSpec]) -> None:
        self.ref = ref
        """Calls `KnownSpecs._forget` at the end of the specification, as long as it is here."""
        self.is_new = True
        """Whether it had no session yet; a template pays from the second on."""
        self.template: SpecTemplate | None = None
        """What its sessions are copies of; `None` before the second."""
