"""Host plugins that come with agentrail."""

from __future__ import annotations
