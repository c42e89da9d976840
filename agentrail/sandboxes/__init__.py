"""Sandboxes, in which tools use files and run commands: the built-in ones, and the protocol for one of your own."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
