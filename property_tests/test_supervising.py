"""The rules of supervision against another telling of them, which keeps every crash and counts from the beginning."""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentrail.core.supervision_rules import ChildFacts, Ending, Policy, RestartDecision, decide


class Crash(NamedTuple):
    """One restart as the reference remembers it."""

    key: str
    at: int
    """In eighths of a second."""


class Reference:
    """A supervisor that forgets nothing: lists of all restarts and of all crashes, looked through each time."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.order: list[tuple[str, str, bool]] = []
        self.shared: list[Crash] = []
        self.own: list[Crash] = []
        self.seen: dict[str, list[str]] = {}

    def within(self, crashes: list[Crash], at: int, key: str | None = None) -> int:
        """Return how many of *crashes* count at the time *at*, of one child if *key* is given."""
        period = int(self.policy.period * 8)
        return sum(1 for one in crashes if at - one.at <= period and key in (None, one.key))

    def expect(self, key: str, ending: Ending, at: int) -> dict[str, object]:
        """Return the fields of the decision that the rules should make when child *key* ends."""
        (restart, session) = next((kind, session) for name, kind, session in self.order if name == key)
        nothing: dict[str, object] = {"stop": (), "forget": (), "start": (), "quarantine": False, "fails": False}
        if ending.fatal:
            return {**nothing, "gone": True, "fails": True}
        over = {"permanent": False, "transient": not ending.crashed, "temporary": True}[restart]
        if over or ending.lost:
            return {**nothing, "gone": True}
        self.seen.setdefault(key, []).append(ending.input)
        last = self.seen[key][-3:]
        if session and len(last) == 3 and set(last) == {ending.input} and ending.input:
            return {**nothing, "gone": False, "quarantine": True}
        if session and self.policy.strategy == "one_for_one":
            self.own.append(Crash(key, at))
            if self.within(self.own, at, key) > self.policy.max_restarts:
                return {**nothing, "gone": False, "quarantine": True}
            return {**nothing, "gone": False, "start": (key,)}
        self.shared.append(Crash(key, at))
        if self.within(self.shared, at) > self.policy.max_restarts:
            return {**nothing, "gone": True, "fails": True}
        hit = [name for name, _, _ in self.order]
        if self.policy.strategy == "one_for_one":
            hit = [key]
        elif self.policy.strategy == "rest_for_one":
            while hit[0] != key:
                hit.pop(0)
        short = {name for name, kind, _ in self.order if kind == "temporary"}
        stopped = tuple(name for name in hit[::-1] if name != key)
        return {
            **nothing,
            "gone": False,
            "stop": stopped,
            "forget": tuple(name for name in stopped if name in short),
            "start": tuple(name for name in hit if name not in short),
        }


class Supervising(RuleBasedStateMachine):
    """State machine: children start and end, and each decision is compared with that of the reference."""

    @initialize(
        strategy=st.sampled_from(("one_for_one", "one_for_all", "rest_for_one")),
        most=st.integers(0, 4),
        period=st.integers(1, 40),
    )
    def begin(self, strategy: str, most: int, period: int) -> None:
        self.policy = Policy(strategy, most, period / 8)
        self.reference = Reference(self.policy)
        self.wards: dict[str, ChildFacts] = {}
        self.restarts: tuple[float, ...] = ()
        self.now = 0
        self.born = 0

    @precondition(lambda self: len(self.wards) < 6)
    @rule(restart=st.sampled_from(("permanent", "transient", "temporary")), session=st.booleans())
    def add(self, restart: str, session: bool) -> None:
        name = f"c{self.born}"
        self.born += 1
        self.wards[name] = ChildFacts(name, restart, session)
        self.reference.order.append((name, restart, session))

    @precondition(lambda self: self.wards)
    @rule(
        which=st.integers(0, 5),
        later=st.sampled_from((0, 1, 1, 2, 3, 8, 20)),
        crashed=st.sampled_from((True, True, True, False)),
        message=st.sampled_from(("", "a", "a", "b")),
        how=st.sampled_from(("",) * 18 + ("lost", "fatal")),
        chance=st.floats(0, 1),
    )
    def end(self, which: int, later: int, crashed: bool, message: str, how: str, chance: float) -> None:
        self.now += later
        key = tuple(self.wards)[which % len(self.wards)]
        ending = Ending(crashed, message, lost=how == "lost", fatal=how == "fatal")
        expected = self.reference.expect(key, ending, self.now)
        before = dict(self.wards)
        decided = decide(self.policy, self.wards, self.restarts, key, ending, now=self.now / 8, chance=chance)
        assert self.wards == before
        found = {name: getattr(decided, name) for name in expected if name != "gone"}
        assert {**found, "gone": decided.facts is None} == expected
        self._check_pause(decided, key)
        self._apply(decided, key)

    def _check_pause(self, decided: RestartDecision, key: str) -> None:
        count = self.reference.within(self.reference.own, self.now, key)
        if not decided.start or self.policy.strategy != "one_for_one" or not self.wards[key].session or count <= 1:
            assert decided.pause == 0
        else:
            longest = min(0.1 * 2 ** (count - 2), 30)
            assert longest / 2 <= decided.pause <= longest

    def _apply(self, decided: RestartDecision, key: str) -> None:
        self.restarts = decided.restarts
        gone = {*decided.forget}
        if decided.facts is None or decided.quarantine:
            gone.add(key)
        elif decided.facts is not None:
            self.wards[key] = decided.facts
        if decided.fails:
            gone = set(self.wards)
            self.restarts = ()
            self.reference.shared.clear()
        for name in gone:
            del self.wards[name]
        self.reference.order = [one for one in self.reference.order if one[0] not in gone]


TestSupervising = Supervising.TestCase
