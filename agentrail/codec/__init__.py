"""Converts values to JSON and back, strictly: nothing is coerced, ignored or guessed.

Only `plugin_types`, which reads states and options of plugins, needs cattrs.
"""
