"""The page shows what the changes of `Transcript` tell: what was said, what was answered, what calls gave."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from agentrail.api.transcript import Transcript
from agentrail.api.transcript_views import changes_view
from agentrail.api.views import to_json
from agentrail.host.operations.host_calls import STATIC
from agentrail.values import events as e
from tests.api.drawn_transcripts import Item, drawn_stream, seen_in
from tests.cli.acp.test_foreign_editors import node
from tests.patience import PATIENCE

WEB: Final = STATIC.parent / "web"
SCRIPT: Final = Path(__file__).with_name("page_items.mjs")

pytestmark = [
    pytest.mark.skipif(
        not (WEB / "node_modules" / "typescript").exists(),
        reason="NOT PROVED: typescript is not installed: run `make console-tools` first",
    ),
    pytest.mark.long,
]

STREAMS: Final = 100

Seen = dict[str, list[Any]]
"""What is seen of a conversation: what was `said`, the `answers` and the `calls`, each in order."""


def _messages(stream: Sequence[e.Envelope]) -> str:
    """Return what a host tells of a stream."""
    transcript = Transcript()
    views = [changes_view(envelope, transcript.take(envelope)) for envelope in stream]
    return to_json([view for view in views if view.changes]).decode()


def on_page(streams: Sequence[Sequence[e.Envelope]], folder: Path) -> list[Seen]:
    """Return what the page shows of each stream."""
    lines = "\n".join(map(_messages, streams))
    command = [node(18), str(SCRIPT), str(WEB), str(folder)]
    process = subprocess.run(  # noqa: S603 - our own
        command, input=lines, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return [_of_page(json.loads(line)) for line in process.stdout.splitlines()]


def _of_page(items: Sequence[dict[str, Any]]) -> Seen:
    seen = Seen(said=[], answers=[], calls=[])
    for item in items:
        match item["kind"]:
            case "prompt" | "steering" as kind:
                seen["said"].append((kind, item["ref"], item["text"], item["status"]))
            case "answer" if item["text"] or item["thinking"]:
                seen["answers"].append((item["text"], item["thinking"]))
            case "call":
                seen["calls"].append(_call_on_page(item))
            case _:
                pass
    return seen


def _in_transcript(items: Sequence[Item]) -> Seen:
    seen = Seen(said=[], answers=[], calls=[])
    read = {item.key for item in items if item.kind == "read"}
    for item in items:
        match item.kind:
            case "prompt":
                seen["said"].append(("prompt", item.key, item.text, ""))
            case "steering" if ("steering", item.key) not in {line[:2] for line in seen["said"]}:
                status = [later.state for later in items if later.kind == "steering" and later.key == item.key][-1]
                seen["said"].append(("steering", item.key, item.text, "applied" if item.key in read else status))
            case "answer" if item.text or item.thoughts:
                seen["answers"].append((item.text, item.thoughts))
            case "call":
                seen["calls"].append(_call(item))
            case _:
                pass
    return seen


def _call_on_page(call: dict[str, Any]) -> tuple[Any, ...]:
    args = None if "json" in (call["args"] or {}) else call["args"] or None
    text = "".join(part.get("text", "") for part in call["content"])
    return call["callId"], args, call["state"], text, _of_page(call["inner"])


def _call(call: Item) -> tuple[Any, ...]:
    return call.key, call.args or None, call.state, call.text, _in_transcript(call.inner)


def test_the_page_shows_what_the_transcript_tells(tmp_path: Path) -> None:
    streams = [drawn_stream(seed, 150) for seed in range(STREAMS)]
    assert on_page(streams, tmp_path) == [_in_transcript(seen_in(stream).items) for stream in streams]
