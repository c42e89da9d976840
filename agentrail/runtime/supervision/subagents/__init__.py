"""The sub-agents of one session: how they run, what they are told, and the limits that all of them share."""

from __future__ import annotations
