"""The built-in offline model: it understands some English phrases, and calls the tools that they ask for."""

from agentrail.adapters.models.demo.demo_model import DemoModel

__all__ = ["DemoModel"]
