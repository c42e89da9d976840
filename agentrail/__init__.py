"""LLM agents on Trio, built like Erlang/OTP: supervised sessions around a pure state machine, with pure plugins.

This module has the names that most programs need; the others are in the packages that it imports first.
"""

from agentrail.safe_path import leave_out_current_folder

leave_out_current_folder()

from agentrail.lazy import lazily  # noqa: E402 - where it is imported from depends on the line above

__getattr__, __dir__, __all__ = lazily(__name__)
