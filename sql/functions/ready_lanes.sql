-- Lanes that have something to give now, one of each level of priority at the most: for those who ask whether there is any. Floors and
-- barren lanes as in claim. In SQL without a search_path of its own, so that it becomes part of the statements that call it.
create or replace function pgdispatch.ready_lanes(levels integer[], served_from bigint[], barren uuid[] default '{}')
returns table (workspace_id uuid)
language sql stable
as $$
    select l.workspace_id
    from unnest(levels, served_from) as level (priority, served_from)
    cross join lateral (
        select l.workspace_id from pgdispatch.lanes l
        where l.active < l.slots and not l.paused and l.ready_priority = level.priority
          and l.last_served >= level.served_from and l.workspace_id <> all (barren)
        limit 1
    ) l
$$;
