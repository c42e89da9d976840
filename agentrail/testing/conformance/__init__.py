"""Test classes to inherit for a journal, model, sandbox or tool of your own: they test what every one must do."""
