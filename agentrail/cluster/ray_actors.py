"""Ray, as this package uses it: named actors are made, asked and ended. It is imported at the first use.

Each call blocks, and has a time: from Trio, it is made in a thread, which a caller that is cancelled leaves behind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, Protocol, TypeVar, cast

import msgspec
import trio

from agentrail.adapters.extras import need_extra
from agentrail.cluster.shard_plan import ShardAddress, read_shard_address
from agentrail.errors import HostNotReached

T = TypeVar("T")

NAMESPACE: Final = "agentrail"
RAY_LOGGER: Final = "ray"
"""Name of the logger of Ray, whose news are none of this program."""

CALLS_AT_ONCE: Final = 64
"""How many calls of an actor are under way at once: each waits in a thread until the shard serves."""

THREADS: Final = 64
"""The most threads of this program that wait for Ray."""

PULSE: Final = 0.25
"""Seconds between two looks of a thread that waits for an actor at whether its caller is cancelled."""

LEAVE_SECONDS: Final = 5.0
"""How long `leave` waits for threads that are in Ray."""


LEFT: Final = "this program has left Ray"
ADVICE: Final = "start Ray there, of the same version, and give its token, if it wants one: `RAY_AUTH_TOKEN`"


class Ray(Protocol):
    """The part of the module `ray` that is used."""

    def is_initialized(self) -> bool: ...  # noqa: D102
    def init(self, address: str, **options: object) -> object: ...  # noqa: D102
    def shutdown(self) -> None: ...  # noqa: D102
    def nodes(self) -> Sequence[Mapping[str, object]]: ...  # noqa: D102
    def get_actor(self, name: str, namespace: str) -> object: ...  # noqa: D102
    def get(self, ref: object, *, timeout: float) -> object: ...  # noqa: D102
    def wait(self, refs: Sequence[object], *, timeout: float) -> tuple[list[object], list[object]]: ...  # noqa: D102
    def kill(self, actor: object, *, no_restart: bool) -> None: ...  # noqa: D102
    def remote(self, kind: type[object]) -> RemoteClass: ...  # noqa: D102
    def get_runtime_context(self) -> RayContext: ...  # noqa: D102


class RayState(Protocol):
    """What Ray's head knows."""

    def get_draining_nodes(self) -> Mapping[str, int]: ...  # noqa: D102


class RayContext(Protocol):
    """Where this process is."""

    def get_node_id(self) -> str: ...  # noqa: D102


class RemoteClass(Protocol):
    """A class whose objects are actors, or a method of one."""

    def options(self, **options: object) -> RemoteClass: ...  # noqa: D102
    def remote(self, *args: object) -> object: ...  # noqa: D102


class NoAnswerError(Exception):
    """An actor is not there, or has not answered in time; the text says what Ray or the actor says."""


class ActorDeadError(NoAnswerError):
    """Ray says that the process of an actor has died before it has answered."""


def load_ray() -> Ray:
    """Import Ray; raise `ExtraMissing` if it is not there."""
    need_extra("cluster", "ray", "use a cluster of Ray")
    return cast("Ray", import_module("ray"))


async def in_thread(call: Callable[[], T]) -> T:
    """Return what a blocking *call* returns; it is left behind if the caller is cancelled."""
    return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=_limiter())


_limiters: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("agentrail_ray_threads")


def _limiter() -> trio.CapacityLimiter:
    try:
        return _limiters.get()
    except LookupError:
        _limiters.set(limiter := trio.CapacityLimiter(THREADS))
        return limiter


def join(address: str) -> bool:
    """Connect this program to the cluster of Ray at *address*; return whether it was not connected before."""
    ray = load_ray()
    if ray.is_initialized():
        return False
    logging.getLogger(RAY_LOGGER).setLevel(logging.ERROR)
    try:
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise HostNotReached(address, str(error), ADVICE) from error
    return True


async def leave() -> None:
    """End the connection to Ray; detached actors live on."""
    # A thread that is in Ray then crashes the process. Those that were left behind hold their tokens until they end:
    # tests/cluster/test_shard_lines.py::test_who_leaves_ray_waits_for_threads_that_are_in_it
    with trio.move_on_after(LEAVE_SECONDS, shield=True):
        while _limiter().borrowed_tokens:  # noqa: ASYNC110 - the limiter tells nobody
            await trio.sleep(PULSE / 10)
    load_ray().shutdown()


def create(kind: type[object], name: str, args: tuple[object, ...], node: str) -> None:
    """Have Ray make the actor *name*, on the machine *node* if there is room, unless there is one of this name."""
    strategies = import_module("ray.util.scheduling_strategies")
    # not SPREAD: of actors that are made at once it put two on one of two machines, and it is forgotten at restarts
    strategy = cast("Callable[..., object]", strategies.NodeAffinitySchedulingStrategy)(node, soft=True)
    actor_class = load_ray().remote(kind)
    options: Mapping[str, object] = {
        "name": name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": 0,
        "max_concurrency": CALLS_AT_ONCE,
        "scheduling_strategy": strategy,
    }
    actor_class.options(**options).remote(*args)


def ask(name: str, method: str, seconds: float) -> object:
    """Call a *method* of the actor *name*, and return what it returns; raise `NoAnswerError` if it does not."""
    try:
        answers = _answered([_call(name, method)], seconds)
        if not answers:
            raise NoAnswerError(f"it did not answer within {seconds:g} s")
        return load_ray().get(answers[0], timeout=seconds)
    except NoAnswerError:
        raise
    except Exception as error:  # noqa: BLE001 - Ray raises many classes, and those of the actor
        raise _problem(error) from None


def _answered(calls: Sequence[object], seconds: float) -> Sequence[object]:
    """Wait for the first of *calls* that is answered, and return it; nothing after so many *seconds*.

    In a thread whose caller is cancelled, it raises `trio.Cancelled` soon.
    """
    until = time.monotonic() + seconds
    while True:
        rest = max(until - time.monotonic(), 0)
        answers, _ = load_ray().wait(calls, timeout=min(rest, PULSE))
        if answers or rest <= PULSE:
            return answers
        trio.from_thread.check_cancelled()


def _call(name: str, method: str) -> object:
    """Call a *method* of the actor *name*, and return what stands for its answer."""
    if not load_ray().is_initialized():  # Ray would begin anew: this is a thread that was left behind
        raise NoAnswerError(LEFT)
    return cast("RemoteClass", getattr(load_ray().get_actor(name, NAMESPACE), method)).remote()


def _problem(error: Exception) -> NoAnswerError:
    """Return what an error of Ray is here."""
    dead = cast("type[Exception]", import_module("ray.exceptions").RayActorError)
    text = str(getattr(error, "cause", None) or error)
    return ActorDeadError(text) if isinstance(error, dead) else NoAnswerError(text)


def where(name: str, seconds: float) -> ShardAddress:
    """Return where the process of the shard *name* is; raise `NoAnswerError` if it does not say so in time."""
    try:
        return read_shard_address(cast("bytes", ask(name, "where", seconds)))
    except msgspec.DecodeError as error:  # it is of another version
        raise NoAnswerError(str(error)) from None


def where_now(name: str, stand_in: str, seconds: float) -> ShardAddress | None:
    """Return where the shard *name* is, as its process says, or that of *stand_in*: the first that knows; or `None`."""
    ray, until, calls = load_ray(), time.monotonic() + seconds, list[object]()
    for actor, method in ((name, "where"), (stand_in, "where_instead")):
        with suppress(Exception):  # then the other one is asked
            calls.append(_call(actor, method))
    while calls:
        answers: Sequence[object] = ()
        with suppress(Exception):  # Ray has failed: it does not say where
            answers = _answered(calls, until - time.monotonic())
        if not answers:
            return None
        calls = [call for call in calls if call not in answers]
        with suppress(Exception):  # as above
            if content := cast("bytes", ray.get(answers[0], timeout=seconds)):
                return read_shard_address(content)
    return None


def kill(name: str) -> None:
    """End the actor *name* for good. No-op if there is none."""
    ray = load_ray()
    with suppress(ValueError):  # that is how Ray says that there is no such actor
        ray.kill(ray.get_actor(name, NAMESPACE), no_restart=True)


def is_there(name: str) -> bool:
    """Whether there is an actor of this name, whatever it does now."""
    try:
        load_ray().get_actor(name, NAMESPACE)
    except ValueError:
        return False
    return True


def machines() -> frozenset[str]:
    """Return the ids of the machines that are alive and run actors; those that are drained run no new ones."""
    rows = [row for row in load_ray().nodes() if row["Alive"]]
    alive = [str(row["NodeID"]) for row in rows if cast("Mapping[str, object]", row["Resources"]).get("CPU")]
    return frozenset(alive) - drained_machines().keys()


def drained_machines() -> Mapping[str, int]:
    """Return when the machines end that Ray was told to drain, in milliseconds of Unix time; 0: that is not known."""
    load_ray()
    try:
        state = cast("RayState", import_module("ray._private.state").state)  # nothing public tells of it
        return state.get_draining_nodes()
    except (ImportError, AttributeError):  # another version of Ray
        return {}


def own_machine() -> str:
    """Return the id of the machine of this process."""
    return load_ray().get_runtime_context().get_node_id()
