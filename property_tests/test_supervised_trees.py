"""Drawn trees of supervisors, whose services crash, return and stop slowly: when all has settled, the right ones run.

Times are virtual, and few, so that endings often meet: in the same pass of the scheduler, while a group is stopped,
while it is started again, while a supervisor rests in order to be started again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import trio
from attrs import field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrail import ChildView, Supervisor, open_supervisor
from agentrail.app.supervisor import Restart
from agentrail.core.supervision_rules import STRATEGIES, Strategy
from agentrail.errors import NotReady, SupervisorClosed, UnknownChild
from agentrail.testing.simulator.virtual import ClockWatch, run
from property_tests.volume import profile

EXAMPLES = {"ci": 100, "campaign": 20_000}

SETTLED = 1_000.0
"""Seconds after which nothing happens any more in any of the trees."""

NO_LIMIT = 1_000
"""More restarts than any tree can have."""


@frozen
class Life:
    """How one run of a service ends by itself."""

    after: int
    """Seconds after its start."""
    crashes: bool
    """Whether it raises an error, or returns."""


@frozen
class Leaf:
    """A service: how it ends by itself in its first lives; the one after them goes on until it is stopped."""

    starts_at: int
    """When it is started; with 0 before all that happens."""
    restart: Restart
    lives: tuple[Life, ...]
    getting_ready: int
    """Seconds until it is ready, from its second life on."""
    stopping: int
    """Seconds that it takes to stop, heedless of its time limit."""
    shutdown: int
    """Its time limit."""


@frozen
class Branch:
    """A supervisor."""

    restart: Restart
    strategy: Strategy
    max_restarts: int
    children: tuple[Leaf | Branch, ...]


@frozen
class Stop:
    """A call of `stop_child`."""

    at: int
    steps: tuple[int, ...]
    """Which child, by its place in each supervisor on the way; the last one if there are fewer levels."""


@frozen
class Scene:
    """A tree and what is done with it."""

    tree: Branch
    stops: tuple[Stop, ...]
    closes_at: int | None
    """When the root is left; `None` if that is when all has settled."""


class BrokeError(Exception):
    """Raised by services that crash."""


@frozen
class Service:
    """A service that runs, and how it did so far."""

    leaf: Leaf
    running: set[int] = field(factory=set)
    """Its lives that have not ended, by their number."""
    ends: list[str] = field(factory=list)
    """How each life has ended."""
    at_once: list[int] = field(factory=list)
    """How many lives there were at the beginning of each."""

    async def __call__(self, task_status: trio.TaskStatus[None]) -> None:
        number = len(self.ends)
        self.running.add(number)
        self.at_once.append(len(self.running))
        try:
            await self._live(number, task_status)
        finally:
            self.running.remove(number)

    async def _live(self, number: int, task_status: trio.TaskStatus[None]) -> None:
        self.ends.append("none")
        life = self.leaf.lives[number] if number < len(self.leaf.lives) else Life(-1, crashes=False)
        try:
            with trio.move_on_after(math.inf if life.after < 0 else life.after) as time:
                if number and self.leaf.getting_ready:
                    await trio.sleep(self.leaf.getting_ready)
                task_status.started()
                await trio.sleep_forever()
        except trio.Cancelled:
            self.ends[number] = "stopped"
            with trio.CancelScope(shield=True):
                await trio.sleep(self.leaf.stopping)
            raise
        assert time.cancelled_caught
        is_stopped = trio.current_effective_deadline() == -math.inf  # in the very pass in which it ends
        self.ends[number] = "stopped" if is_stopped else "crashed" if life.crashes else "returned"
        if life.crashes:
            raise BrokeError


@frozen
class Grown:
    """A supervisor that runs, with its children."""

    branch: Branch
    supervisor: Supervisor
    children: tuple[Service | Grown, ...]
    refused: list[int] = field(factory=list)
    """Children that could not be started, by their place."""


async def grow(branch: Branch, supervisor: Supervisor, nursery: trio.Nursery) -> Grown:
    """Start what is under *branch*, or have it started later."""
    children: list[Service | Grown] = []
    late: list[tuple[int, Service]] = []
    for place, child in enumerate(branch.children):
        if isinstance(child, Leaf):
            service = Service(child)
            children.append(service)
            if child.starts_at:
                late.append((place, service))
            else:
                await start(service, str(place), supervisor)
        else:
            below = await supervisor.start_supervisor(
                str(place),
                strategy=child.strategy,
                max_restarts=child.max_restarts,
                period=SETTLED,
                restart=child.restart,
            )
            children.append(await grow(child, below, nursery))
    grown = Grown(branch, supervisor, tuple(children))
    for place, service in late:
        nursery.start_soon(start_later, service, place, grown)
    return grown


async def start(service: Service, name: str, supervisor: Supervisor) -> None:
    leaf = service.leaf
    await supervisor.start_service(service, name, restart=leaf.restart, shutdown=leaf.shutdown, start_timeout=SETTLED)


async def start_later(service: Service, index: int, grown: Grown) -> None:
    await trio.sleep(service.leaf.starts_at)
    try:
        await start(service, str(index), grown.supervisor)
    except (SupervisorClosed, NotReady):
        grown.refused.append(index)


def find(grown: Grown, steps: tuple[int, ...]) -> tuple[Grown, tuple[int, ...]]:
    """Return the supervisor above the child that *steps* lead to, and the path of that child."""
    place = steps[0] % len(grown.children)
    child = grown.children[place]
    if isinstance(child, Service) or len(steps) == 1:
        return grown, (place,)
    above, path = find(child, steps[1:])
    return above, (place, *path)


async def stop(grown: Grown, order: Stop, stopped: list[tuple[int, ...]]) -> None:
    """Stop a child, if there still is one; when that returns, all of it has ended that ends in time."""
    await trio.sleep(order.at)
    above, path = find(grown, order.steps)
    try:
        await above.supervisor.stop_child(str(path[-1]))
    except UnknownChild:
        return
    child = above.children[path[-1]]
    for service in (child,) if isinstance(child, Service) else services(child):
        assert not service.running or service.leaf.stopping >= service.leaf.shutdown, (path, service)
    stopped.append(path)


def services(grown: Grown) -> Iterator[Service]:
    for child in grown.children:
        if isinstance(child, Service):
            yield child
        else:
            yield from services(child)


def check(grown: Grown, view: ChildView, stopped: Sequence[tuple[int, ...]], path: tuple[int, ...] = ()) -> None:
    """Raise an error if *view*, what a supervisor shows of itself, or what runs under it, is wrong."""
    views = {child.name: child for child in view.children}
    for index, child in enumerate(grown.children):
        here = (*path, index)
        is_there = str(index) in views
        what = (here, child, views)
        if here in stopped:
            assert not is_there, what
        if isinstance(child, Grown):
            assert is_there or here in stopped or child.branch.restart == "temporary", what
            if is_there:
                check(child, views[str(index)], stopped, here)
            else:
                assert not any(service.running for service in services(child)), what
            continue
        is_running = bool(child.running)
        is_over = here in stopped or index in grown.refused
        assert is_running == is_there == (not is_over and is_wanted(child)), what
        assert not is_running or views[str(index)].state == "running", what


def is_wanted(service: Service) -> bool:
    """Whether a service that nobody has stopped for good runs when all has settled."""
    match service.leaf.restart:
        case "permanent":
            return True
        case "transient":
            assert "returned" not in service.ends[:-1], service
            return "returned" not in service.ends
        case "temporary":
            assert len(service.ends) <= 1, service
            return service.ends == ["none"]


async def play(scene: Scene) -> None:
    """Let a scene happen."""
    tree = scene.tree
    async with (
        open_supervisor(strategy=tree.strategy, max_restarts=NO_LIMIT, period=SETTLED, stop_within=None) as root,
        trio.open_nursery() as nursery,
    ):
        grown = await grow(tree, root, nursery)
        stopped: list[tuple[int, ...]] = []
        for order in scene.stops:
            nursery.start_soon(stop, grown, order, stopped)
        await trio.sleep(SETTLED if scene.closes_at is None else scene.closes_at)
        if scene.closes_at is None:
            check(grown, root.tree(), stopped)
        nursery.cancel_scope.cancel()
    for service in services(grown):
        assert not service.running, service
        assert max(service.at_once, default=1) == 1, service


RESTARTS: st.SearchStrategy[Restart] = st.sampled_from(("permanent", "permanent", "transient", "temporary"))
LIVES = st.lists(st.builds(Life, st.integers(1, 6), st.booleans() | st.just(True)), max_size=3).map(tuple)
LEAVES = st.builds(
    Leaf,
    st.sampled_from((0, 0, 0, 1, 2, 3, 5)),
    RESTARTS,
    LIVES,
    getting_ready=st.sampled_from((0, 0, 1, 3)),
    stopping=st.sampled_from((0, 0, 2, 4)),
    shutdown=st.sampled_from((5, 5, 1)),
)


def branches(children: st.SearchStrategy[Leaf | Branch]) -> st.SearchStrategy[Branch]:
    return st.builds(
        Branch,
        RESTARTS,
        st.sampled_from(STRATEGIES),
        st.sampled_from((0, 1, NO_LIMIT)),
        st.lists(children, min_size=1, max_size=3).map(tuple),
    )


TREES = branches(LEAVES | branches(LEAVES | branches(LEAVES)))
STOPS = st.lists(
    st.builds(Stop, st.integers(1, 8), st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)), max_size=2
).map(tuple)


@given(st.builds(Scene, TREES, STOPS, st.none() | st.integers(1, 12)), st.integers(0, 2**16))
@settings(max_examples=EXAMPLES[profile()], suppress_health_check=[HealthCheck.too_slow])
def test_when_a_tree_has_settled_the_right_children_run_and_it_ends(scene: Scene, seed: int) -> None:
    run(seed, ClockWatch(), lambda _: play(scene))
