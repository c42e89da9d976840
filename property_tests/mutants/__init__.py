"""Edits the code on purpose, one place at a time, and checks that a test fails: `python -m property_tests.mutants`.

`operators` yields the edits of a module, `reach` records which tests reach a line, `server` tests each edit in a fork.
`tables` changes the two tables that no text spells out cell by cell: the matrix of actions and the transition table.
"""
