"""The exception for each error code of OpenAI and of servers with the same API."""

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
        "invalid_api_key": KeyRefused,
        "authentication_error": KeyRefused,
        "insufficient_quota": QuotaSpent,
        "billing_hard_limit_reached": QuotaSpent,
        "billing_not_active": QuotaSpent,
        "unsupported_country_region_territory": AccessDenied,
        "permission_error": AccessDenied,
        "PermissionDenied": AccessDenied,  # Azure, with the status 401: the token is right, and lacks the role
        "model_not_found": ModelMissing,
        "context_length_exceeded": ContextTooLong,
        "exceed_context_size_error": ContextTooLong,  # llama.cpp
        "invalid_prompt": RequestRefused,
        "rate_limit_exceeded": RateLimited,
        "rate_limit_error": RateLimited,
        "slow_down": Overloaded,
        "server_is_overloaded": Overloaded,
        "overloaded_error": Overloaded,
        "unavailable_error": Overloaded,  # llama.cpp, while it loads the model
        "server_error": ProviderFailed,
        "tool_use_failed": ProviderFailed,  # Groq: the model wrote a malformed call; it is tried again
    }
)
"""Errors in answers with an error status.

`invalid_request_error` is left out on purpose: it comes with 401 and 404 too, so there the status decides.
"""

IN_STREAM: Final = Faults(
    {
        **FAULTS.by_type,
        "invalid_request_error": RequestRefused,
        "not_found_error": ModelMissing,
        "bio_policy": RequestRefused,
        "content_filter": RequestRefused,  # Azure
        "content_policy_violation": RequestRefused,  # Azure, after a `response.failed` that says nothing
        "misalignment_policy_violation": RequestRefused,
        "data_residency_mismatch": RequestRefused,
        "image_content_policy_violation": RequestRefused,
        "failed_to_download_image": RequestRefused,
        "image_file_not_found": RequestRefused,
        "invalid_image": RequestRefused,
        "invalid_image_mode": RequestRefused,
        "invalid_image_url": RequestRefused,
        "invalid_image_format": RequestRefused,
        "invalid_base64_image": RequestRefused,
        "image_too_large": RequestRefused,
        "image_too_small": RequestRefused,
        "image_parse_error": RequestRefused,
        "image_file_too_large": RequestRefused,
        "unsupported_image_media_type": RequestRefused,
        "empty_image_file": RequestRefused,
        "insufficient_system_resource": Overloaded,  # DeepSeek, as a `finish_reason`
        "no_capacity": Overloaded,  # Azure
        "too_many_requests": RateLimited,  # Azure
    }
)
"""The exceptions for errors within a stream, which have no HTTP status of their own."""
