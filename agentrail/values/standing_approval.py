"""`StandingApproval`: what a person has approved for always."""

from __future__ import annotations

from agentrail.values.value import Value


class StandingApproval(Value):
    """An approval for always: later calls of its kind run without being held."""

    tool: str
    """Name of the tool."""
    command_family: str
    """Command family of the calls."""
    by: str = ""
    """Id of the user who approved; empty if it was given without one."""
    at_ms: int = 0
    """When it was given, in milliseconds since 1970; 0 if its record is older than this field."""
