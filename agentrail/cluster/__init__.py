"""A cluster of hosts that Ray places and restarts; each name is imported at its first use."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, "cluster")
