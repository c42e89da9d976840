"""A supervised service: a function beside the sessions, which the supervisor starts again when it crashes.

How often within which time, and what else is restarted with it, is said when the supervisor is opened.

    life 1 of the feed
    life 2 of the feed
    ('feed',) ConnectionError: the feed broke
    the session beside it: idle
"""

from itertools import count

import trio

from agentrail import SessionSpec, open_supervisor

lives = count(1)
steady = trio.Event()


async def feed(task_status: trio.TaskStatus[None]) -> None:
    """Read something for ever; the first life breaks."""
    life = next(lives)
    print("life", life, "of the feed")
    task_status.started()
    if life == 1:
        await trio.sleep(0.01)
        raise ConnectionError("the feed broke")
    steady.set()
    await trio.sleep_forever()


async def main() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo"))
        await supervisor.start_service(feed, "feed")
        await steady.wait()
        (crash,) = supervisor.crashes()
        print(crash.path, crash.reason.text)
        print("the session beside it:", session.status().phase)


trio.run(main)
