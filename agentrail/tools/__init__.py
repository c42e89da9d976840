"""Tools: the decorator `tool`, the protocol `Tool`, types of arguments and results, and the built-in tools."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
