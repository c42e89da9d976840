"""Edits that no test can notice, or should: by reason."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, tuple[str, ...]]] = {}
