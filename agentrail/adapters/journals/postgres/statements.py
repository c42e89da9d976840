"""The statements of the writer: each is one transaction, and names the epoch that the session must have."""

from __future__ import annotations

from typing import Final

LEASE: Final = """insert into agentrail.lease (id, holder, until)
values (%s, %b, case when %s > 0 then agentrail.now_ms() + %s else 0 end)
on conflict (id) do update set until = excluded.until where lease.until < excluded.until"""
"""Let the lease of a holder last so long, at least."""

_KEPT_MS: Final = 30 * 86_400_000

# skip locked: of two processes that begin at once, neither waits for the other
LAPSED: Final = f"""delete from agentrail.lease where id in (
    select id from agentrail.lease where until > 0 and until < agentrail.now_ms() - {_KEPT_MS}
    for update skip locked
)"""  # noqa: S608
"""Delete the leases of processes that have ended: for so long a late renewal holds."""

# the epoch is drawn where the row is changed: only there, after a wait for its lock, numbers are in the order of claims
CLAIM: Final = """insert into agentrail.session as s (id, epoch, lease, held)
select id, nextval('agentrail.epoch'), %s::bigint, %s::boolean from unnest(%b::bytea[]) as wanted (id)
on conflict (id) do update set epoch = nextval('agentrail.epoch'), lease = excluded.lease, held = excluded.held
where %s::boolean or not s.held
or coalesce(agentrail.time_left(s.lease, %b), 0) <= 0 or coalesce(agentrail.time_left(s.lease, %b), 0) <= 0
returning id, epoch, head, seq, "check\""""
"""Claim sessions that only two holders may have: the caller, and whom they are taken over from.

Ids are in their order, so that two who claim the same ones do not deadlock.
"""

HOLDERS: Final = """select s.id, lease.holder, lease.until - agentrail.now_ms()
from agentrail.session s join agentrail.lease on lease.id = s.lease where s.id = any(%b)"""

_WANTED: Final = "with wanted as (select * from unnest(%b::bytea[], %b::bigint[]) as w (id, epoch))"

RENEW: Final = f"""{_WANTED},
valid as (
    select s.id, s.epoch, s.lease, s.held from agentrail.session s join wanted w on s.id = w.id and s.epoch = w.epoch
    join agentrail.lease on lease.id = s.lease
),
held as (
    update agentrail.session s set held = true from valid where s.id = valid.id and s.epoch = valid.epoch and not s.held
),
renewed as (
    update agentrail.lease set until = agentrail.now_ms() + %s where id in (select lease from valid)
)
select id, epoch from wanted except all select id, epoch from valid"""  # noqa: S608
"""Renew the leases of the holders of sessions, and return what is lost.

Of the sessions only those are written that were released.
"""

RELEASE: Final = f"""{_WANTED}
update agentrail.session s set held = false from wanted w where s.id = w.id and s.epoch = w.epoch and s.held"""  # noqa: S608

KEEP: Final = """with claimed as (
    select id from agentrail.session where id = %b and epoch = %s for no key update
),
blobs as (
    insert into agentrail.blob select id, b.digest, b.content
    from claimed, unnest(%b::text[], %b::bytea[]) as b (digest, content) on conflict do nothing
)
insert into agentrail.snapshot
select id, %s::bigint, %b::bytea, %s::integer, %s::text, %b::bytea, %b::bytea from claimed
on conflict (session) do update set number = excluded.number, behind = excluded.behind, format = excluded.format,
blobs = excluded.blobs, "check" = excluded."check", body = excluded.body
returning session"""

APPEND: Final = """with wanted as (
    select * from unnest(%b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[],
        %b::bigint[], %b::boolean[], %b::boolean[], %b::bigint[])
    as w (id, epoch, before, head, seq, "check", due, at_work, ended, active)
),
moved as (
    update agentrail.session s set head = w.head, seq = w.seq, "check" = w."check",
    due = w.due, at_work = w.at_work, ended = w.ended, active = w.active
    from wanted w where s.id = w.id and s.epoch = w.epoch and s.head = w.before
    returning s.id
),
records as (
    insert into agentrail.record (session, number, epoch, seq, command, format, blobs, "check", body)
    select r.* from unnest(%b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[], %b::integer[],
        %b::text[], %b::bytea[], %b::bytea[])
    as r (session, number, epoch, seq, command, format, blobs, "check", body) join moved on moved.id = r.session
),
blobs as (
    insert into agentrail.blob select b.* from unnest(%b::bytea[], %b::text[], %b::bytea[])
    as b (session, digest, content) join moved on moved.id = b.session on conflict do nothing
),
about as (
    insert into agentrail.about select a.session, parent, tenant, owner, spec, title,
        array(select decode(label, 'hex') from unnest(string_to_array(labels, ' ')) as l (label)), created
    from unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::text[], %b::bigint[])
    as a (session, parent, tenant, owner, spec, title, labels, created) join moved on moved.id = a.session
    on conflict (session) do update set title = excluded.title, labels = excluded.labels
)
select id from moved"""
"""Write records of sessions whose claims are valid, with all that belongs to them; return the ids of these sessions."""

DRAW: Final = "select nextval('agentrail.epoch') from generate_series(1, %s)"

RECLAIM: Final = """update agentrail.session set epoch = %s where id = %b and epoch = any(%b::bigint[])
returning id, epoch, head, seq, "check\""""
"""Claim a session in doubt: it waits for the statement that is in doubt, or keeps it from being carried out."""
