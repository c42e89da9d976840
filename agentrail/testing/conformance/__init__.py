"""Tests to inherit: what every journal, model, sandbox and tool must do."""
