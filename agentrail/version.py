"""The version that is installed; whoever does not ask for it does not pay for the look."""

from importlib.metadata import version
from typing import Final

__version__: Final = version("agentrail")
