"""Evaluations: cases, experiments that run each several times, scorers of their records, comparisons of two."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
