-- Whether a workspace's work waits for a slot, as far as the last claim knew: what ends there is to be noticed first. It orders
-- what is watched, and decides nothing.
create or replace function pgdispatch.slot_wanted(workspace uuid) returns boolean
language sql stable
as $$
    select exists (
        select from pgdispatch.lanes l
        where l.workspace_id = workspace and l.active >= l.slots and l.ready_priority is not null and not l.paused
    );
$$;
