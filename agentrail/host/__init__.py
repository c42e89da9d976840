"""The host: sessions served to people and programs over HTTP; each name is imported at its first use."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
