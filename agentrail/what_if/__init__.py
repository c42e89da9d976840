"""What if: other plugins asked beside those of sessions that happened. The public names are in `agentrail.insight`."""
