"""The built-in offline model: it knows some phrases and the tools that go with them."""

from agentrail.adapters.models.demo.demo_model import DemoModel

__all__ = ["DemoModel"]
