"""Makes the generated pages of the reference: functions that return Markdown as lists of lines.

Everything here is printed from what the code itself uses: the transition table, the unions of inputs, effects and
events, the hooks and their signatures, the classes of options and errors. What only the source knows, such as the text
under a field, comes from a `Source`, to which the caller passes the texts of the modules.
"""
