"""The installed version; a module of its own, because looking it up takes time that most programs need not spend."""

from importlib.metadata import version
from typing import Final

from agentrail.distribution import DISTRIBUTION

__version__: Final = version(DISTRIBUTION)
