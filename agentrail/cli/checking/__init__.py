"""The checks of `agentrail check`, and the options of its command line."""
