"""The events of a session: one frozen class for each kind, and `AnyEvent`, the union of all.

The other modules of the package are imported when a name is first used: a program that needs one event does not load
all of them. So no event is named here: a type checker reads the names from the modules, a running program from the
`catalogue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import catalogued

if TYPE_CHECKING:
    from agentrail.values.events.catalogue import EVENTS as EVENTS
    from agentrail.values.events.catalogue import AnyEvent as AnyEvent
    from agentrail.values.events.context import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.envelope import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.life import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.people import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.plugins import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.response import *  # noqa: F403 - for type checkers only
    from agentrail.values.events.tools import *  # noqa: F403 - for type checkers only
else:
    __getattr__, __dir__ = catalogued(__name__, "agentrail.values.events.catalogue")
