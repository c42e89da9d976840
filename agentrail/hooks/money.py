"""The money that a session may spend, as the plugins that limit it say: so any plugin can know what is left."""

from __future__ import annotations

from agentrail.values.usage import Usage
from agentrail.values.value import Value, value


@value
class MoneyLimit(Value):
    """A limit on what a session costs."""

    max_usd: float
    """How much it may cost."""
    shared: bool = False
    """Whether what others use counts too: of a sub-agent, whose limit is what remained of its parent's."""

    def left(self, usage: Usage, elsewhere: Usage) -> float | None:
        """Return what may still be spent; `None`: what was spent is not known."""
        used = usage.plus(elsewhere) if self.shared else usage
        spent = 0.0 if used.is_nothing else used.cost_usd
        return None if spent is None else max(0.0, self.max_usd - spent)
