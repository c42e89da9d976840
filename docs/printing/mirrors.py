"""Writes the mirrors of a supervisor and a handle: their methods once more, for asyncio and for threads that block.

What is for asyncio is written from the classes on Trio, and what blocks is written from that. All of it is Python, in
the form that the formatter gives it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, TypeAlias

from docs.printing.source_text import Source

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

CLASSES: Final = (("agentrail.runtime.handle", "SessionHandle"), ("agentrail.app.supervisor", "Supervisor"))
"""The classes that have a mirror, in the order in which they are written."""

WRAPPED: Final = {
    "SessionHandle": "SessionHandle(self._thread, {})",
    "Supervisor": "Supervisor(self._thread, {})",
    "Subscription": "Subscription(self._thread, {}, window)",
    "Monitor": "Monitor(self._thread, {})",
    "ActorTrace": "Trace(self._thread, {})",
    "TurnStream": "TurnStream(self._thread, {})",
    "tuple[SessionHandle, ...]": "tuple(SessionHandle(self._thread, handle) for handle in {})",
}
"""What a method returns that has a mirror too, and how that is made."""

UNDONE: Final = ("spawn", "fork")
"""Methods whose session is stopped if nobody gets its handle."""

MADE_HERE: Final = ("by", "stream", "subscribe", "monitor", "trace")
"""Methods that are not async and read nothing that changes on Trio meanwhile."""

RICH_DISPLAY: Final = (
    "    def _repr_html_(self) -> str:",
    "        return session_html(self._handle)",
    "",
    "    def _repr_markdown_(self) -> str:",
    "        return session_markdown(self._handle)",
    "",
)
"""The methods by which a notebook shows a session."""

AFTER: Final = "\n\n"
"""The lines that the formatter wants between code and the comment that ends it."""

OPEN: Final = "open_supervisor"
"""The function that has a mirror too."""

MIRRORED: Final = ("Monitor", "Subscription", "Trace", "TurnStream")
"""The mirrors in `agentrail.aio.readers`, which are written by hand."""

NAMES: Final = {"ActorTrace": "Trace"}
"""Classes whose mirror has another name."""

BLOCKING: Final = (
    (r"\bawait (self\.\w+\.\w+)\(", r"\1_blocking("),
    (r"Coroutine\[object, object, (\w+)\]:\n {8}return (self\.\w+\.\w+)\(", r"\1:\n        return \2_blocking("),
    (r"\bwatched\b", "watched_blocking"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\ban async iterator\b", "an iterator"),
    (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\bagentrail\.aio\.readers\b", "agentrail.sync.blocking_readers"),
    (r"\(AsyncOnly\)|\bAsyncOnly, |from agentrail\.hints import AsyncOnly\n", ""),
    (r"  # noqa: ASYNC\d+ .*", ""),
)
"""What stands in code for asyncio, as patterns, and what in code that blocks."""


def mirror(source: Source) -> str:
    """Return the text of the mirrors for asyncio, with their imports."""
    bodies = [_class(source, module, name) for module, name in CLASSES]
    classes = formatted("\n\n\n".join(bodies))
    words = {node.id for node in ast.walk(ast.parse(classes)) if isinstance(node, ast.Name)}
    lines = [*_imports(), *_type_imports(source, words)]
    return formatted("\n".join(lines) + "\n\n" + _constants(words) + "\n\n" + classes) + AFTER


def opening(source: Source, returned: str, opened: str) -> str:
    """Return the text of the function that opens a supervisor: it returns a *returned*, which *opened* makes."""
    return formatted("\n".join(_opening(source, returned, opened))) + AFTER


def blocking(text: str) -> str:
    """Return *text*, code for asyncio, as code that blocks; the module's docstring and `__future__` are left out."""
    text = text.rpartition("from __future__ import annotations\n")[2]
    return formatted(in_blocking_words(text)) + AFTER


def in_blocking_words(text: str) -> str:
    """Return *text*, code or a docstring, as it is right where calls block."""
    for pattern, words in BLOCKING:
        text = re.sub(pattern, words, text)
    return text


def _class(source: Source, module: str, name: str) -> str:
    """Return the text of the mirror of one class."""
    node = source.class_node(module, name)
    target = "_handle" if name == "SessionHandle" else "_supervisor"
    bases = "HandleHints" if name == "SessionHandle" else "SupervisorHints"
    lines = [
        "@with_spelt_calls",
        f"class {name}({bases}):",
        _docstring(node, 4),
        "",
        f'    __slots__ = ("{target}", "_thread")',
        "",
    ]
    lines += [
        f"    def __init__(self, thread: TrioThread[object], {target[1:]}: Trio{name}) -> None:",
        "        self._thread = thread",
        '        """The thread in which it runs."""',
        f"        self.{target} = {target[1:]}",
        '        """What is mirrored."""',
        "",
        "    def __repr__(self) -> str:",
        f"        return repr(self.{target})",
        "",
    ]
    if name == "SessionHandle":
        lines += RICH_DISPLAY
    overloaded: set[str] = set()
    for function in source.function_nodes(module, name):
        lines += [*_method(function, target, overloaded), ""]
    return "\n".join(lines)


def _method(node: _Function, target: str, overloaded: set[str]) -> Iterator[str]:
    """Yield the lines of the mirror of one method; add its name to *overloaded* if others with it follow."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    returns = _returned(node)
    is_async = isinstance(node, ast.AsyncFunctionDef)
    keyword = "async def" if is_async else "def"
    for decorator in decorators:
        yield f"    @{decorator}"
    yield f"    {keyword} {node.name}({_parameters(node, returns)}) -> {NAMES.get(returns, returns)}:"
    if "overload" in decorators:
        overloaded.add(node.name)
        yield "        ..."
        return
    yield _docstring(node, 8)
    if "property" in decorators:
        yield f"        return self.{target}.{node.name}"
        return
    call = f"self.{target}.{node.name}"
    if node.name in overloaded:  # no single one of its signatures takes what they take together
        answer = "Awaitable[object]" if is_async else f"Trio{returns}"
        call = f'cast("Callable[..., {answer}]", {call})'
    arguments = ", ".join(_passed(node))
    work = f"partial({call}, {arguments})" if arguments else call
    if not is_async:
        read = f"{call}({arguments})" if node.name in MADE_HERE else f"self._thread.look({work})"
        yield f"        return {_wrapped(returns, read)}"
        return
    undo = ", stop_orphan" if node.name in UNDONE else ""
    answer = f"await self._thread.call({work}{undo})"
    yield f"        return {_wrapped(returns, answer)}" if returns != "None" else f"        {answer}"


def _opening(source: Source, returned: str, opened: str) -> Iterator[str]:
    """Yield the lines of the function that opens a supervisor."""
    node = source.function_node("agentrail.app.supervisor", OPEN)
    yield from (f"@{ast.unparse(decorator)}" for decorator in node.decorator_list)
    yield f"def {OPEN}({ast.unparse(node.args)}) -> {returned}:"
    yield _docstring(node, 4)
    names = [argument.arg for argument in node.args.kwonlyargs]
    passed = ", ".join(f"{name}={name}" for name in names)
    yield f"    return {opened}(trio_{OPEN}({passed}), stop_within)"


def _returned(node: _Function) -> str:
    """Return the annotation of what *node* returns, without the name of a module."""
    return ast.unparse(node.returns).rpartition("commands.")[2] if node.returns is not None else "None"


def _wrapped(returns: str, value: str) -> str:
    """Return the code of *value* as the mirror returns it; the class of a generic one says which mirror it has."""
    return WRAPPED.get(returns, WRAPPED.get(returns.partition("[")[0], "{}")).format(value)


def _parameters(node: _Function, returns: str) -> str:
    """Return the parameters as they are written, and for a subscription its window."""
    text = ast.unparse(node.args)
    return f"{text}, window: int = WINDOW" if returns == "Subscription" else text


def _passed(node: _Function) -> Iterator[str]:
    """Yield the arguments with which *node* is called."""
    arguments = node.args
    for parameter in (*arguments.posonlyargs, *arguments.args):
        if parameter.arg != "self":
            yield parameter.arg
    if arguments.vararg is not None:
        yield f"*{arguments.vararg.arg}"
    for parameter in arguments.kwonlyargs:
        yield f"{parameter.arg}={parameter.arg}"
    if arguments.kwarg is not None:
        yield f"**{arguments.kwarg.arg}"


def _docstring(node: ast.ClassDef | _Function, indent: int) -> str:
    """Return the docstring of *node* as it is written."""
    text = ast.get_docstring(node) or ""
    margin = " " * indent
    first, *rest = text.splitlines()
    end = [f'{margin}"""'] if rest else []
    lines = [f'{margin}"""{first}' + ("" if rest else '"""'), *(f"{margin}{line}".rstrip() for line in rest), *end]
    return "\n".join(lines)


def _imports() -> Iterator[str]:
    """Yield the imports that a running program needs."""
    yield from ("from functools import partial", "from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload")
    yield "from agentrail.bridge.handle_parts import session_html, session_markdown, stop_orphan"
    yield "from agentrail.bridge.streams import WINDOW"
    yield f"from agentrail.aio.readers import {', '.join(MIRRORED)}"
    yield "from agentrail.hints import HandleHints, SupervisorHints"
    yield "from agentrail.values.argument_checks import with_spelt_calls"


def _type_imports(source: Source, words: set[str]) -> Iterator[str]:
    """Yield the imports that only type checkers need."""
    yield from ("if TYPE_CHECKING:", "    from agentrail.bridge.trio_thread import TrioThread")
    for module, name in CLASSES:
        yield f"    from {module} import {name} as Trio{name}"
    homes: dict[str, str] = {}
    for module in ("agentrail.api.session_calls", *(module for module, _ in CLASSES)):
        homes |= source.homes(module)
    homes |= {"Awaitable": "collections.abc", "Callable": "collections.abc"}
    imported = {"Literal", "TYPE_CHECKING", "TypeVar", "cast", "overload", "partial"}
    own = {*imported, "SessionHandle", "Supervisor", "ActorTrace", *MIRRORED}
    for name in sorted(words & homes.keys() - own):
        yield f"    from {homes[name]} import {name}"
    yield "    from agentrail.runtime.access.turn_stream import TurnStream as TrioTurnStream"
    if "Form" in words:
        yield "    from agentrail.runtime.handle import Form"


def _constants(words: set[str]) -> str:
    return 'T = TypeVar("T")' if "T" in words else ""


def formatted(text: str) -> str:
    """Return *text* as the formatter leaves it, with its imports sorted."""
    imports = ["check", "--quiet", "--select", "I,F401", "--fix-only"]
    for options in (imports, imports, ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", "agentrail/aio/handles.py", "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours
    return text.rstrip()
