"""The folder and the exported variables that commands of a session's shell leave to later ones.

They are state and no process, so restarts, forks and rewinds have them. A tool that requires `shell` returns them in
its details; a call of one that names no folder gets that of the state as an argument, before plugins and people see it.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.tool_calls import Call
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.shell_details import EXPORTS, FOLDER, LEFT, ROOT
from agentrail.values.tools import Err, Ok, ToolSpec


def with_folder(draft: StepDraft, spec: ToolSpec, args: JsonObject) -> JsonObject:
    """Return *args* with the folder of the session's shell if the tool takes a folder, and they name none."""
    folder = draft.state.shell_folder
    if folder == ROOT or args.get(FOLDER) is not None or not _is_shell(spec):
        return args
    return freeze_object({**args, FOLDER: folder})


def keep_shell(draft: StepDraft, call: Call, answer: Ok | Err) -> None:
    """Keep the folder and the exports that a command has left. No-op if its tool tells of none."""
    if answer.details is None or call.spec is None or not _is_shell(call.spec):
        return
    shell = answer.details.get(LEFT)
    if not isinstance(shell, Mapping):
        return
    folder, exports = shell.get(FOLDER), shell.get(EXPORTS)
    if isinstance(folder, str) and isinstance(exports, Mapping):
        draft.state.shell_folder = folder
        draft.state.shell_exports = exports


def _is_shell(spec: ToolSpec) -> bool:
    if "shell" not in spec.requires:
        return False
    properties = spec.parameters.get("properties")
    return isinstance(properties, Mapping) and FOLDER in properties
