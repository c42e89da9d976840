"""Host plugins that come with agentrail."""
