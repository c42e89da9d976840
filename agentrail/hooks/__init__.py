"""The plugin contract: hooks, actions, which hook accepts which action, and the hook runner that runs plugins."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
