"""The exception for each error code of the Gemini API, in error answers and in the stream."""

from __future__ import annotations

from typing import Final

from agentrail.adapters.models.provider_errors import Faults
from agentrail.errors import (
    AccessDenied,
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
        "API_KEY_INVALID": KeyRefused,  # the `reason` that comes with the status INVALID_ARGUMENT
        "BILLING_DISABLED": QuotaSpent,  # the `reason` that comes with the status PERMISSION_DENIED
        "INVALID_ARGUMENT": RequestRefused,
        "OUT_OF_RANGE": RequestRefused,
        "UNIMPLEMENTED": RequestRefused,
        "FAILED_PRECONDITION": AccessDenied,  # the API is not available in this country, or only with billing
        "UNAUTHENTICATED": KeyRefused,
        "PERMISSION_DENIED": AccessDenied,
        "NOT_FOUND": ModelMissing,
        "RESOURCE_EXHAUSTED": RateLimited,
        "CANCELLED": ProviderFailed,
        "ABORTED": ProviderFailed,
        "UNKNOWN": ProviderFailed,
        "INTERNAL": ProviderFailed,
        "DEADLINE_EXCEEDED": ProviderFailed,
        "UNAVAILABLE": Overloaded,
    },
    ("status", "code"),
)
