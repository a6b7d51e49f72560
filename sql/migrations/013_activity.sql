-- What the replicas did, minute by minute, and how each of them is: for whoever looks. Nothing is decided by it.

-- One row a minute, of the last day.
create table pgdispatch.activity (
    minute    timestamptz primary key,
    started   bigint not null default 0,
    completed bigint not null default 0,
    failed    bigint not null default 0,
    cancelled bigint not null default 0,
    -- Of those started, how many had waited for how long: the nth is of those of up to 2^((n-1)/4) eighths of a millisecond.
    waits     bigint[] not null default '{}'
)
with (fillfactor = 50);

alter table pgdispatch.replicas
    -- How the replica is, by its last heartbeat: see claim.ReplicaState.
    add column state jsonb not null default '{}';

-- For lists by name, page by page.
create index workspaces_by_name on pgdispatch.workspaces (name collate "C", id);

alter table pgdispatch.lane_hints
    -- How the item ended that left this hint; null: it did not. What ends is counted where hints are swept, so that nobody who
    -- ends an item writes a row that another one writes.
    add column ended text;

{{ template "functions/drop_read_hints.sql" . }}
{{ template "functions/error_kind.sql" . }}
{{ template "functions/waiting_of.sql" . }}

---- create above / drop below ----

drop function pgdispatch.waiting_of(uuid, integer);
drop function pgdispatch.error_kind(text);
drop function pgdispatch.drop_read_hints();
drop index pgdispatch.workspaces_by_name;
alter table pgdispatch.lane_hints drop column ended;
alter table pgdispatch.replicas drop column state;
drop table pgdispatch.activity;
