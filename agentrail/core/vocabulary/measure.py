"""`Measured`: how many tokens the context had, as the provider has counted them at the last response."""

from __future__ import annotations

from agentrail.values.value import Value


class Measured(Value):
    """Tokens and characters of the context after a response."""

    tokens: int
    """Tokens that the model has read and written, as the provider says."""
    size: int
    """Characters of the same context: system prompt, sections, tools and history, the response included."""
