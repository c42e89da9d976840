"""Journals, which store sessions: two built-in ones, the protocol for your own; archives and audits of a session."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
