-- What was started and ended in a workspace, by five minutes, for a day. The time comes first in the key: rows are added
-- at one end of the index and deleted at the other, and a workspace is read by one index step for each five minutes.
create table pgdispatch.workspace_activity (
    at           timestamptz not null,
    workspace_id uuid not null,
    -- How long the started items had been due, in ms: the sum, and the longest.
    waited       bigint not null default 0,
    longest      bigint not null default 0,
    started      integer not null default 0,
    completed    integer not null default 0,
    failed       integer not null default 0,
    cancelled    integer not null default 0,
    primary key (at, workspace_id)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- How many items of each of a mark's workspaces ended, in the order of workspaces. Null means that the mark has one
-- workspace, or that nothing ended.
alter table pgdispatch.marks add column completed_of integer[], add column failed_of integer[];

---- create above / drop below ----

alter table pgdispatch.marks drop column completed_of, drop column failed_of;
drop table pgdispatch.workspace_activity;
