"""The same job on bare Trio: a session task, a model task and a subscriber; hand-made wake-ups, nothing else."""

import trio


class Wake:
    """A list and the one task that waits for it."""

    __slots__ = ("items", "task")

    def __init__(self) -> None:
        self.items: list[tuple[str, int]] = []
        self.task: trio.lowlevel.Task | None = None

    def put(self, item: tuple[str, int]) -> None:
        self.items.append(item)
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)
            self.task = None

    async def take(self) -> list[tuple[str, int]]:
        if not self.items:
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        items, self.items = self.items, []
        return items


async def model(box: Wake, events: Wake, chunks: int, delay: float | None, calls: int) -> None:
    for number in range(0 if calls else chunks):
        if delay is not None:
            await trio.sleep(delay)
        events.put(("delta", number))
    box.put(("ended", calls))


async def tool(box: Wake) -> None:
    box.put(("result", 0))


async def session(nursery: trio.Nursery, box: Wake, events: Wake, done: Wake, chunks: int, delay: float | None) -> None:
    left = 0
    while True:
        for kind, number in await box.take():
            if kind in ("prompt", "result"):
                left -= kind == "result"
                if left <= 0:
                    nursery.start_soon(model, box, events, chunks, delay, number)
            elif number:
                left = number
                for _ in range(number):
                    nursery.start_soon(tool, box)
            else:
                events.put(("end", 0))
                done.put(("done", 0))


async def subscriber(events: Wake) -> None:
    while True:
        await events.take()
