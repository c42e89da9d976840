"""The phrases that the demo understands, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.adapters.models.demo.kinds import Kind
from agentrail.adapters.models.demo.phrasings import changing, doing, looking
from agentrail.adapters.models.demo.phrasings.phrasing import Phrasing

PHRASINGS: Mapping[Kind, tuple[Phrasing, ...]] = {
    Kind.EDIT: changing.EDIT,
    Kind.REMEMBER: doing.REMEMBER,
    Kind.WRITE: changing.WRITE,
    Kind.READ: looking.READ,
    Kind.LIST: looking.LIST,
    Kind.RUN: doing.RUN,
    Kind.SEARCH: looking.SEARCH,
    Kind.COUNT: doing.COUNT,
}
"""The phrasings of each kind; kinds and phrasings in the order in which they are tried."""
