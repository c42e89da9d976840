"""Functions that carry out the calls of a host: the operations of its HTTP interface."""

from __future__ import annotations
