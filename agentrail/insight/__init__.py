"""What a session did, and why: pure functions over its records, which ask no plugin and no model again."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
