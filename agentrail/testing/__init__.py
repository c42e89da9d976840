"""The test kit for agents and plugins; each name is imported at its first use."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, extra="testing")
