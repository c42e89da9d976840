-- The tables of version 1, which `PostgresJournal` made until it kept its records in those of `SqlJournal`.

create schema agentrail;

create table agentrail.journal (version integer not null);

insert into agentrail.journal values (1);

create sequence agentrail.epoch;

create function agentrail.now_ms() returns bigint language sql volatile
as $$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$;

create table agentrail.lease (
    id bigint primary key,
    holder bytea not null,
    until bigint not null
);

create function agentrail.time_left(held_by bigint, wanted_by bytea) returns bigint language sql volatile
as $$ select until - agentrail.now_ms() from agentrail.lease where id = held_by and holder <> wanted_by $$;

create table agentrail.session (
    id bytea primary key,
    epoch bigint not null,
    lease bigint not null,
    held boolean not null,
    head bigint not null default 0,
    seq bigint not null default 0,
    "check" bytea not null default '',
    due bigint,
    at_work boolean not null default false,
    ended boolean not null default false,
    active bigint not null default 0
) with (fillfactor = 60);

create index session_by_due on agentrail.session (due, id) where due is not null and not at_work;

create index session_at_work on agentrail.session (id) where at_work;

create index session_ended on agentrail.session (id) where ended;

create table agentrail.about (
    session bytea primary key,
    parent bytea,
    tenant bytea not null,
    owner bytea not null,
    spec bytea not null,
    title bytea not null,
    labels bytea[] not null,
    created bigint not null
);

create index about_by_parent on agentrail.about (parent) where parent is not null;

create index about_by_tenant on agentrail.about (tenant, session) where tenant <> '';

create index about_by_owner on agentrail.about (owner, session) where owner <> '';

create index about_by_label on agentrail.about using gin (labels);

create table agentrail.record (
    session bytea not null,
    number bigint not null,
    epoch bigint not null,
    seq bigint not null,
    command bytea,
    format integer not null,
    blobs text not null,
    "check" bytea not null,
    body bytea not null,
    sealed bytea,
    primary key (session, number)
);

create index record_by_command on agentrail.record (session, command) where command is not null;

create table agentrail.snapshot (
    session bytea primary key,
    number bigint not null,
    behind bytea not null,
    format integer not null,
    blobs text not null,
    "check" bytea not null,
    body bytea not null
);

create table agentrail.blob (
    session bytea not null,
    digest text not null,
    content bytea not null,
    primary key (session, digest)
);
