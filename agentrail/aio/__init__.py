"""Sessions for programs on asyncio: the same supervisor and handles, over a Trio thread."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
