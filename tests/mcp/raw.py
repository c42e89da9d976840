"""An MCP server without manners, of an older protocol: its first argument says what is wrong with it."""

import json
import os
import sys
import time

WRONG = sys.argv[1]

GOOD = {"name": "good", "description": "Do good.", "inputSchema": {"type": "object"}}
LISTS = {
    "bad tools": [
        GOOD,
        {"name": "no good", "description": "Its name has a blank.", "inputSchema": {"type": "object"}},
        {"name": "n" * 80, "description": "Its name is long.", "inputSchema": {"type": "object"}},
        {"name": "array", "description": "Takes an array.", "inputSchema": {"type": "array"}},
        {"name": "broken", "description": "Has no schema.", "inputSchema": {"type": "object", "required": "all"}},
        {
            "name": "leading",
            "description": "Leads out.",
            "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}},
        },
        {"name": "huge", "description": "Much.", "inputSchema": {"type": "object", "title": "x" * 100_000}},
        {"name": "silent", "inputSchema": {"type": "object"}},
        dict(GOOD, description="The same name again."),
    ],
}
MORE = {"name": "more", "description": "Do more.", "inputSchema": {"type": "object"}}
ANSWERS = {
    "many": {"content": [{"type": "text", "text": str(number)} for number in range(103)]},
    "nothing": {"content": []},
    "failed": {"content": [], "isError": True},
    "data": {"content": [], "structuredContent": {"a": [1, None]}},
    "no result": {"content": "what?"},
}


def send(message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")  # type: ignore[dict-item]  # it is an object
    sys.stdout.flush()


def answer(asked: dict[str, object]) -> None:
    def reply(result: object) -> None:
        send({"id": asked["id"], "result": result})

    match asked["method"]:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            reply(
                {
                    "protocolVersion": "2025-11-25" if WRONG == "asks" else "2025-06-18",
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
            )
        case "tools/list":
            reply({"tools": LISTS.get(WRONG, [GOOD])})
        case "tools/call":
            call(reply)
        case _ if "id" in asked:
            send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
        case _:
            pass


def call(reply: object) -> None:
    assert callable(reply)
    match WRONG:
        case "changes":
            tools = LISTS["changes"] = [GOOD, MORE] if "changes" not in LISTS else []
            for _ in range(50):
                send({"method": "notifications/tools/list_changed"})
            reply({"content": [{"type": "text", "text": f"{len(tools)} tools"}]})
        case "asks":
            answers = [ask("e1", NAME)]
            if answers == ["cancelled"]:
                return
            answers.append(ask("e2", SURE))
            reply({"content": [{"type": "text", "text": json.dumps(answers)}]})
        case "long message":
            sys.stdout.write("x" * 20_000_000)
        case "hangs up":
            os.close(1)
            time.sleep(1000)
        case "deaf":
            time.sleep(1000)
        case _:
            reply(ANSWERS[WRONG])


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


LATER: list[dict[str, object]] = []
"""Messages that came while a person was asked."""


def ask(request_id: str, schema: object) -> object:
    """Ask a person while the call runs, and wait for the answer."""
    params = {"mode": "form", "message": f"{request_id}?", "requestedSchema": schema}
    send({"id": request_id, "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == request_id:
            return message["result"]
        if message.get("method") == "notifications/cancelled":
            return "cancelled"
        LATER.append(message)
    return "left"


def main() -> None:
    if WRONG == "silent":
        time.sleep(1000)
    if WRONG == "dies":
        sys.exit(f"I cannot live without a key, and it is not {sys.argv[2]}")
    sys.stdout.write("Welcome!\n\nThis is no message.\n")
    for line in sys.stdin:
        answer(json.loads(line))
        while LATER:
            answer(LATER.pop(0))


main()
