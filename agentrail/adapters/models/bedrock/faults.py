"""The exception for each exception of Bedrock, in error answers and in frames of the stream."""

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
        "AccessDeniedException": AccessDenied,
        "ExpiredTokenException": KeyRefused,
        "IncompleteSignatureException": KeyRefused,
        "InternalServerException": ProviderFailed,
        "InvalidSignatureException": KeyRefused,
        "MissingAuthenticationTokenException": KeyRefused,
        "ModelErrorException": ProviderFailed,
        "ModelNotReadyException": Overloaded,
        "ModelStreamErrorException": ProviderFailed,
        "ModelTimeoutException": ProviderFailed,
        "ResourceNotFoundException": ModelMissing,
        "ServiceQuotaExceededException": QuotaSpent,
        "ServiceUnavailableException": Overloaded,
        "ThrottlingException": RateLimited,
        "UnrecognizedClientException": KeyRefused,
        "ValidationException": RequestRefused,
    },
    ("__type", "type"),
    header="x-amzn-errortype",
)
