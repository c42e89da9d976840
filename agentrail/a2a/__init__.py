"""The protocol A2A: a host whose agents others call, as a face of it, and a tool that calls agents elsewhere."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
