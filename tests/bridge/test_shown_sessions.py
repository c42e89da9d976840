"""What a session shows in a notebook: its messages as HTML and as Markdown."""

from __future__ import annotations

from typing import cast

from agentrail import SessionSpec, sync
from agentrail.testing import ScriptedModel, call, say


def test_a_session_is_shown_with_its_texts_escaped_and_cut() -> None:
    def lookup() -> str:
        """Look it up."""
        return "x" * 5000

    model = ScriptedModel([say(calls=[call("lookup")]), "<script>", *["again"] * 20])
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=model, tools=[lookup]), "talk")
        session.ask("<i>hi</i>")
        html, markdown = notebook_text(session, "_repr_html_"), notebook_text(session, "_repr_markdown_")
        assert "<script>" not in html
        assert "<i>" not in html
        assert "→ lookup" in html
        assert "x" * 2000 + "…" in html
        assert "x" * 2001 not in html
        assert "\n> <script>" in markdown
        assert "session `talk`" in markdown
        for _ in range(10):
            session.ask("more")
        assert "… 4 messages before" in notebook_text(session, "_repr_html_")


def notebook_text(session: sync.SessionHandle, name: str) -> str:
    """Return what a notebook shows, which looks the method up by its name."""
    return cast("str", getattr(session, name)())
