"""`Policy`: what happens to a subscriber of events that reads too slowly."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

SubscriptionPolicy: TypeAlias = Literal["coalesce", "drop", "disconnect"]
"""How a subscriber that is too slow is treated; see `POLICIES`."""

POLICIES: Final[tuple[SubscriptionPolicy, ...]] = ("coalesce", "drop", "disconnect")
"""How a subscriber that is too slow is treated. `coalesce`: its deltas are merged, and durable events are read again
from the journal. `drop`: events are left out, and a `Gap` marks the place. `disconnect`: the stream ends with an error
that has the cursor from which to go on."""
