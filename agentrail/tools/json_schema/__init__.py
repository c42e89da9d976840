"""JSON Schema and the regular expressions in it: a value is checked in counted steps."""
