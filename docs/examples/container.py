"""Commands in a container: what a session sees of this machine, and what is left of it.

Run `python container.py podman:IMAGE`.

    the folder: notes.txt
    hidden: 0
    network: lo
    left when the session has ended: .env notes.txt
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.models import ToolMessage
from agentrail.sandboxes import ContainerSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools

LOOKS = {
    "the folder": "ls",
    "hidden": "wc -c < .env",
    "network": "ls /sys/class/net",
}


async def main(engine: str, image: str, folder: str) -> None:
    model = ScriptedModel([*(say(calls=[call("shell", {"command": line})]) for line in LOOKS.values()), "done"])
    sandbox = ContainerSandbox(image, engine="podman" if engine == "podman" else "docker", folder=folder)
    spec = SessionSpec(model=model, tools=standard_tools(), sandbox=sandbox)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask("Look around.")
    results = [message for message in reply.messages if isinstance(message, ToolMessage)]
    for about, result in zip(LOOKS, results, strict=True):
        print(f"{about}: {result.text}")


if __name__ == "__main__":
    engine, _, image = sys.argv[1].partition(":")
    with TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text("Tea at four.\n")
        Path(folder, ".env").write_text("KEY=secret")
        trio.run(main, engine, image, folder)
        print("left when the session has ended:", *sorted(path.name for path in Path(folder).iterdir()))
