"""The exception for each error type of the Messages API, in error answers and in error events of the stream."""

from __future__ import annotations

from typing import Final

from agentrail.adapters.models.provider_errors import Faults
from agentrail.errors import (
    AccessDenied,
    ContextTooLong,
    KeyRefused,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    QuotaSpent,
    RateLimited,
    RequestRefused,
)

FAULTS: Final = Faults(
    {
        "invalid_request_error": RequestRefused,
        "authentication_error": KeyRefused,
        "billing_error": QuotaSpent,
        "permission_error": AccessDenied,
        "not_found_error": ModelMissing,
        "request_too_large": ContextTooLong,
        "rate_limit_error": RateLimited,
        "timeout_error": ProviderFailed,
        "api_error": ProviderFailed,
        "overloaded_error": Overloaded,
    },
    ("type",),
)
