"""Functions that carry out the calls of a host."""

from __future__ import annotations
