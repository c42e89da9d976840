"""Takes the current folder out of `sys.path` in `python -m agentrail`, before anything else is imported.

Python puts the folder there in which it is started. It may be a clone of a stranger's, with a file such as `click.py`.
This module needs nothing but what Python has imported before: even `from __future__ import …` would import a file.
"""

import os
import sys


def leave_out_current_folder() -> None:
    """Remove the current folder from the beginning of `sys.path` if Python is about to run a module of agentrail.

    No-op in any other program, and with `python -P`, where it is not there.
    """
    # While the packages around a module are imported, `python -m` has put `-m` in the place of the program's name
    if sys.argv[:1] != ["-m"] or sys.flags.safe_path:
        return
    word = sys.orig_argv[-len(sys.argv)]
    module = word.partition("m")[2] if word.startswith("-") else word  # also written as one word, `-magentrail`
    try:
        folder = os.getcwd()  # noqa: PTH109 - `pathlib` would be imported
    except OSError:  # it was removed, so Python has not put it there
        return
    if module.partition(".")[0] == "agentrail" and sys.path[:1] == [folder]:
        del sys.path[0]
