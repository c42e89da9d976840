"""All exceptions that agentrail raises on purpose, grouped by who has to act.

An error has a class if programs act on it in a way of its own; others have a `code`, in `errors.codes`.
"""

from agentrail.errors.agentrail_error import AgentrailError as AgentrailError
from agentrail.errors.agentrail_error import BrokenContractError as BrokenContractError
from agentrail.errors.agentrail_error import InfrastructureError as InfrastructureError
from agentrail.errors.agentrail_error import OutsideError as OutsideError
from agentrail.errors.agentrail_error import RefusedError as RefusedError
from agentrail.errors.agentrail_error import UsageError as UsageError
from agentrail.errors.broken import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.infrastructure import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.models import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.outside import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.refused import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.serving import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.stored import *  # noqa: F403 - every class of errors that it has
from agentrail.errors.usage import *  # noqa: F403 - every class of errors that it has

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]  # the classes of these modules
    name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, AgentrailError)
]
