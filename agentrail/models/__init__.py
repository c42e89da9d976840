"""Everything for a model of your own: the protocol, its requests and responses; and usage, prices and limits."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
