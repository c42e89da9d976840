"""Plugins that keep what a context cannot hold: large results, memory files, earlier runs."""

from __future__ import annotations
