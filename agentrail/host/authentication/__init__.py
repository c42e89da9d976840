"""Who makes a request, and how many they may make."""

from __future__ import annotations
