"""Files that people upload to sessions."""

from __future__ import annotations
