"""`agentrail new` and `agentrail check`: for those who write agents and plugins."""
