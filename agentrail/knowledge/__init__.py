"""Knowledge: documents that a model searches and cites, one file for each tenant and store, beside its embeddings."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
