"""Why a session did what it did: pure functions over its records, which ask no plugin and no model again."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
