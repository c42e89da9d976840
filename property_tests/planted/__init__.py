"""Plants bugs on purpose, one at a time, and checks that a property or the simulator finds each.

    python -m property_tests.planted [word ...]

plants the bugs whose words contain one of these, searches seeds until one finds the bug, and prints a table. With
`--write` the seeds are stored.
"""
