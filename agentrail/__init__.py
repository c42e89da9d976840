"""LLM agents on Trio, built like Erlang/OTP: supervised sessions around a pure state machine, with pure plugins.

This module has the names that most programs need; the others are in the packages that it imports first.
"""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
