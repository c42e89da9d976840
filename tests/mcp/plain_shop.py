"""The server of `shop.py` over its pipes, without the package `mcp`, which takes most of a second to import."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

FORM = os.environ["FORM"]
NOTES = Path(os.environ["NOTES"])

WORD = {"item": {"type": "string"}}
ONE = {"description": "Buy a thing.", "inputSchema": {"type": "object", "properties": WORD, "required": ["item"]}}
MANY = {
    "description": "Buy a thing, again and again.",
    "inputSchema": {
        "type": "object",
        "properties": {**WORD, "times": {"type": "integer", "default": 100}},
        "required": ["item"],
    },
}
NOTHING = {"inputSchema": {"type": "object"}}
TOOLS: dict[str, Mapping[str, object]] = {"buy": ONE if FORM == "one" else MANY, "wait": NOTHING, "change": NOTHING}


def note(what: str) -> str:
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{FORM} {what}\n")
    return f"{FORM} {what}"


def send(message: Mapping[str, object]) -> None:
    whole: dict[str, object] = {"jsonrpc": "2.0", **message}
    sys.stdout.write(json.dumps(whole) + "\n")
    sys.stdout.flush()


def call(name: str, args: Mapping[str, object]) -> str | None:
    """Return what a tool says; `wait` says nothing."""
    match name:
        case "buy" if TOOLS["buy"] is ONE:
            return note(f"bought {args['item']}")
        case "buy":
            return note(f"bought {args.get('times', 100)} {args['item']}")
        case "change":
            TOOLS["buy"] = MANY
            send({"method": "notifications/tools/list_changed"})
            return note("changed")
        case _:
            note("waits")
            return None


def answer(asked: Mapping[str, object]) -> None:
    params = asked.get("params")
    given = params if isinstance(params, dict) else {}
    match asked["method"]:
        case "initialize":
            info = {"name": "shop", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
            send({"id": asked["id"], "result": result})
        case "tools/list":
            send({"id": asked["id"], "result": {"tools": [{"name": name, **tool} for name, tool in TOOLS.items()]}})
        case "tools/call":
            said = call(given["name"], given.get("arguments", {}))
            if said is not None:
                send({"id": asked["id"], "result": {"content": [{"type": "text", "text": said}]}})
        case "notifications/cancelled":
            send({"id": given["requestId"], "error": {"code": 0, "message": "Request cancelled"}})
        case _ if "id" in asked:
            send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
        case _:
            pass


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
