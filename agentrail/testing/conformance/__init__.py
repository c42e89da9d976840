"""Test classes to inherit, with what every journal, model, sandbox and tool of your own must do."""
