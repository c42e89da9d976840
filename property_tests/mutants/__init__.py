"""Edits the code on purpose, one place at a time, and checks that a test fails: `python -m property_tests.mutants`.

`operators` yields the edits of a module, `reach` records which tests reach a line, `server` tests each edit in a fork.
`tables` changes the tables of the core and the pipeline cell by cell, which a change of the text could not.
"""
