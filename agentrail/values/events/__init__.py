"""Everything that a session reports: one frozen class per event, in a closed union.

The modules of the events are imported on first use: a program that needs one event does not load all of them.
No event is named here: type checkers read the modules, and a running program asks the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import catalogued

if TYPE_CHECKING:
    from agentrail.values.events.catalogue import EVENTS as EVENTS
    from agentrail.values.events.catalogue import AnyEvent as AnyEvent
    from agentrail.values.events.context import *  # noqa: F403 - see above
    from agentrail.values.events.envelope import *  # noqa: F403 - see above
    from agentrail.values.events.life import *  # noqa: F403 - see above
    from agentrail.values.events.people import *  # noqa: F403 - see above
    from agentrail.values.events.plugins import *  # noqa: F403 - see above
    from agentrail.values.events.response import *  # noqa: F403 - see above
    from agentrail.values.events.tools import *  # noqa: F403 - see above
else:
    __getattr__, __dir__ = catalogued(__name__, "agentrail.values.events.catalogue")
