"""Plugins that come with agentrail: pure reducers over hooks and events."""
