"""What a host signs comes through whole, counts for a time and once, and only as it was signed."""

from __future__ import annotations

import pytest

from agentrail.errors import ClusterFault
from agentrail.host import Cluster, Identity
from agentrail.host.cluster.signatures import FRESH, SignedCall, UsedNumbers, check_call, read_signature, signed_key
from agentrail.host.http11.inbound import ChunkedBody
from agentrail.host.requests.refusals import HttpRefusal

NOW = 1_700_000_000_000
WHO = Identity("acme", "ann", frozenset({"talk"}), key="k7")


def cluster(*keys: str) -> Cluster:
    return Cluster("http://10.0.0.1:8700", " ".join(keys))


def test_the_id_of_a_key_goes_along_and_each_key_of_the_cluster_counts() -> None:
    old, new = "o" * 32, "n" * 32
    key = signed_key(cluster(old), WHO, "http://10.0.0.1:8700", NOW, SignedCall("GET", "/v1/tree"))
    signed = read_signature(cluster(new, old), key, NOW)
    assert (signed.identity().key, signed.identity().hops, signed.user) == ("k7", 1, "ann")
    for late in (-FRESH - 1, FRESH + 1):
        with pytest.raises(ClusterFault, match="clock"):
            read_signature(cluster(new, old), key, NOW + late)
    for differs in (("POST", "/v1/tree", ""), ("GET", "/v1/me", ""), ("GET", "/v1/tree", "a=1")):
        with pytest.raises(ClusterFault):
            check_call(signed, *differs)


def test_a_number_counts_once_as_long_as_its_signature_may_count_and_is_forgotten_then() -> None:
    used = UsedNumbers()
    used.use("one", 0)
    with pytest.raises(ClusterFault):
        used.use("one", 2 * FRESH)
    used.use("one", 2 * FRESH + 1)


def test_what_follows_a_chunk_is_its_end() -> None:
    body = ChunkedBody()
    assert body.take(bytearray(b"1\r\na\r\n0\r\n\r\n")) == b"a"
    assert body.ended
    with pytest.raises(HttpRefusal):
        ChunkedBody().take(bytearray(b"1\r\naXX"))
