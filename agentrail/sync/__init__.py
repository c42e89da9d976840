"""Sessions for scripts and notebooks: the same supervisor and handles, with calls that block instead of `await`."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
