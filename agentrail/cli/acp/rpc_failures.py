"""`FAILURES`: the errors that answer one request of an editor, and the error of the protocol for each."""

from __future__ import annotations

from typing import Final

from agentrail.cli.acp.rpc_messages import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND, RpcError
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import harmless
from agentrail.errors import AgentrailError, UnknownSession, UsageError
from agentrail.values.untrusted_values import described

FAILURES: Final = (AgentrailError, RpcError, BadInputError, OSError, ValueError, RuntimeError)
"""Errors that are the answer to one request, and end nothing else.

The last three are raised by what is outside, such as a folder without rights or links in a circle.
"""


def error_of(error: Exception, session_id: str) -> RpcError:
    """Return the error of the protocol for *error*, which is one of `FAILURES`."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, UnknownSession):
        return RpcError(NOT_FOUND, str(error), {"sessionId": session_id})
    is_editors = isinstance(error, UsageError | BadInputError)  # such as settings that the person has not allowed
    text = str(error) if isinstance(error, AgentrailError | BadInputError) else harmless(described(error))
    return RpcError(INVALID_PARAMS if is_editors else INTERNAL_ERROR, text)
