"""`ruling_test`: writes how the plugins of a candidate rule at one hook as a test to be kept."""

from __future__ import annotations

import re

from agentrail.hooks.ruling import Ruling
from agentrail.insight.session_backtest import Parting
from agentrail.testing.as_code import CodeSource, quoted


def ruling_test(part: Parting) -> str | None:
    """Return a module with a test of the ruling of the candidate; `None` if the part is of no hook, or goes on."""
    if part.question is None or not part.plugins:
        return None
    source = CodeSource()
    source.wants("agentrail.plugins", "Keyed")
    source.wants("agentrail.testing", "ask_plugins")
    plugins = [f"    Keyed({quoted(row.key)}, {source.code(row.plugin)})," for row in part.plugins]
    states = [f"    {quoted(row.key)}: {source.code(row.state)}," for row in part.plugins if row.state is not None]
    hook = source.code(part.question)
    context = "" if part.context is None else f", context={source.code(part.context)}"
    checks = _checks(part.now.ruling, source)
    name = re.sub(r"\W+", "_", f"{part.session_id}_{part.record}")
    return "\n".join(
        [
            f'"""Where a back-test parts from session {_plain(part.session_id)}: record {part.record}, `{part.hook}`.',
            "",
            f"Then: {_plain(part.then.sentence)}.",
            f"Now: {_plain(part.now.sentence)}.",
            *('"""', "", *source.lines(), ""),
            *("PLUGINS = [", *plugins, "]", "STATES = {", *states, "}", "", ""),
            f"def test_{part.hook}_in_{name}() -> None:",
            f"    hook = {hook}",
            f"    ruling = ask_plugins(PLUGINS, hook, states=STATES{context})",
            *(*checks, ""),
        ]
    )


def _checks(ruling: Ruling, source: CodeSource) -> list[str]:
    """Return the lines that say how the plugins rule."""
    decisions = ruling.decisions
    lines = [f"    assert ruling.verdict.value == {quoted(ruling.verdict.value)}"]
    lines += [f"    assert ruling.by == {quoted(ruling.by)}"] if ruling.by is not None else []
    for field, value, default in (
        ("args", decisions.args, None),
        ("text", decisions.text, None),
        ("texts", decisions.texts, ()),
    ):
        if value != default:
            lines.append(f"    assert ruling.decisions.{field} == {source.code(value)}")
    return lines


def _plain(text: str) -> str:
    """Return *text* in one line, without what would end a docstring or hide in it."""
    return re.sub(r"[^\w .,:;!?()/@<>=+`-]", "?", " ".join(text.split()))
