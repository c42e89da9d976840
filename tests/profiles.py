"""How much is tried: `AGENTRAIL_PROFILE` picks `ci` (the default) or `campaign`."""

import os
from datetime import timedelta

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("AGENTRAIL_PROFILE", "ci")

CAMPAIGN = PROFILE == "campaign"
"""Whether figures have their full size, and times are asserted: CI asserts no time."""


def load_profile(examples: int = 100) -> None:
    """Register the profiles, that of CI with so many *examples*, and load the one that the environment asks for."""
    # A machine with other work draws slowly, whatever is drawn.
    slowly = [HealthCheck.too_slow]
    settings.register_profile(
        "ci", derandomize=True, deadline=None, max_examples=examples, print_blob=True, suppress_health_check=slowly
    )
    settings.register_profile(
        "campaign",
        deadline=timedelta(seconds=20),
        max_examples=5_000,
        print_blob=True,
        suppress_health_check=slowly,
    )
    settings.load_profile(PROFILE)
