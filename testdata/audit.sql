-- For tests: records every change of an item's status with the transaction that made it, so that the state at each
-- commit can be replayed in commit order. Needs track_commit_timestamp = on.
create schema audit;

create table audit.changes (
    item         bigint not null,
    workspace_id uuid not null,
    old_status   text,
    new_status   text,
    leased       integer not null, -- how many more items are leased after this change: -1, 0 or 1
    held         integer not null, -- how many more slots of the workspace are held
    xid          xid8 not null default pg_current_xact_id()
);

create function audit.record() returns trigger language plpgsql security definer as $$
begin
    insert into audit.changes (item, workspace_id, old_status, new_status, leased, held)
    values (coalesce(new.id, old.id), coalesce(new.workspace_id, old.workspace_id), old.status, new.status,
            (new.status is not distinct from 'CLAIMED')::int - (old.status is not distinct from 'CLAIMED')::int,
            coalesce(new.stage in ('HOLDS', 'DOUBT'), false)::int
            - coalesce(old.stage in ('HOLDS', 'DOUBT'), false)::int);
    return null;
end;
$$;

create trigger audit after insert or update or delete on pgdispatch.workflow_execution_queue
for each row execute function audit.record();

-- The greatest number ever leased at a commit, over all workspaces.
create view audit.greatest_leased as
select coalesce(max(n), 0) as n
from (
    select sum(sum(leased)) over (order by pg_xact_commit_timestamp(xid::xid), xid) as n
    from audit.changes group by xid
) t;

-- The greatest number of slots ever held at a commit, by workspace.
create view audit.greatest_held as
select workspace_id, max(n) as n
from (
    select workspace_id, sum(sum(held)) over (partition by workspace_id order by pg_xact_commit_timestamp(xid::xid), xid) as n
    from audit.changes group by workspace_id, xid
) t
group by workspace_id;
