"""The sandboxes that are part of agentrail: where tools read and write files and run commands."""
