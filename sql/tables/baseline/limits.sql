-- Limits by key: how many items with a limit key may run at once, and start in a period, in a workspace or over all
-- workspaces. See docs/enqueue.md.

create table pgdispatch.limits (
    id             bigint generated always as identity primary key,
    -- Null means over all workspaces.
    workspace_id   uuid references pgdispatch.workspaces (id) on delete cascade,
    key            text not null check (length(key) between 1 and 200),
    -- How many items with the key may run at once. Null means no limit; 0 starts nothing.
    max_concurrent integer check (max_concurrent between 0 and 100000),
    -- In any period of length per[n], at most max_starts[n] items with the key start. Null means no limit.
    max_starts     integer[],
    per            interval[],
    check (pgdispatch.check_rates(max_starts, per))
);

-- Not partial: some queries look for a key in any workspace.
create unique index limits_of_workspaces on pgdispatch.limits (key, workspace_id);
create unique index limits_of_all on pgdispatch.limits (key) where workspace_id is null;
create index limits_by_workspace on pgdispatch.limits (workspace_id);

-- The starts that rates of limits count, in twentieths of a period. Only claims write it. A start counts as if it was
-- at the end of its twentieth, so a period never has more than its limit.
create table pgdispatch.limit_starts (
    limit_id bigint not null,
    per      interval not null,
    until    timestamptz not null,
    items    integer not null,
    primary key (limit_id, per, until)
)
with (fillfactor = 50);
