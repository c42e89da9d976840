"""The tables of agentrail as documents: functions that return Markdown, line by line.

Everything here is printed from what the code itself uses: the transition table, the unions of inputs, effects and
events, the hooks and their signatures, the classes of options and errors. What only the source knows, such as the text
under a field, comes from a `Source`, into which whoever prints passes the texts of the modules.
"""
