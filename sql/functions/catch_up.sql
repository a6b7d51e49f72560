-- Makes lanes of what is new where a claim cannot do it in passing: a workspace without a lane, a level of priority that
-- nobody used before, or very many changes at once. The lanes are marked as due, and claims look at so many of them at a time.
-- Call it under claim_lock. Returns the snapshot whose items and hints are now in lanes. seen null: nothing was seen.
create or replace function pgdispatch.catch_up(seen pg_snapshot, at_time timestamptz, inout levels integer[], inout served_from bigint[], out sees pg_snapshot)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    known_levels integer[] := levels;
    known_from bigint[] := served_from;
    workspaces uuid[];
    freed integer[];
    priorities integer[];
    run_ats timestamptz[];
    groups integer := 0;
begin
    if seen is null then
        delete from pgdispatch.lane_hints;
        perform pgdispatch.recount_lanes();
    end if;
    -- Hints first and each once; the items that a later snapshot sees as well do no harm.
    select pg_current_snapshot(), array_agg(h.workspace_id), array_agg(h.freed), array_agg(h.priority), array_agg(h.run_at)
    into sees, workspaces, freed, priorities, run_ats
    from (
        {{ template "parts/spans.sql" }}
    ) span
    cross join lateral (select h.* from pgdispatch.lane_hints h where h.xid between span.first_xid and span.last_xid offset 0) h
    where pg_visible_in_snapshot(h.xid, pg_current_snapshot());

    -- Each workspace and level once for each transaction.
    with recursive span as (
        {{ template "parts/spans.sql" }}
    ), arrived as (
        select head.*, s.last_xid
        from span s
        cross join lateral (
            select q.enqueue_xid, q.workspace_id, q.priority, q.run_at
            from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and not q.outcome_unknown and q.enqueue_xid between s.first_xid and s.last_xid
            order by q.enqueue_xid, q.workspace_id, q.priority, q.run_at limit 1
        ) head
        union all
        select following.*, a.last_xid
        from arrived a
        cross join lateral (
            select q.enqueue_xid, q.workspace_id, q.priority, q.run_at
            from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and not q.outcome_unknown and q.enqueue_xid <= a.last_xid
              and (q.enqueue_xid, q.workspace_id, q.priority) > (a.enqueue_xid, a.workspace_id, a.priority)
            order by q.enqueue_xid, q.workspace_id, q.priority, q.run_at limit 1
        ) following
    ), bounded as (
        select a.workspace_id, a.priority, a.run_at from arrived a limit 20000
    )
    select count(*), workspaces || array_agg(b.workspace_id), freed || array_agg(0), priorities || array_agg(b.priority),
           run_ats || array_agg(b.run_at)
    into groups, workspaces, freed, priorities, run_ats
    from bounded b;
    if seen is null or groups >= 20000 then -- every workspace that waits is less than every transaction that made one wait
        select workspaces || array_agg(w.workspace_id), freed || array_agg(0), priorities || array_agg(w.priority),
               run_ats || array_agg(w.run_at)
        into workspaces, freed, priorities, run_ats
        from pgdispatch.waiting_levels() w;
    end if;

    levels := array(
        select distinct p.priority from unnest(known_levels || priorities) as p (priority) where p.priority is not null order by 1 desc);
    served_from := array(
        select coalesce(known_from[array_position(known_levels, p.priority)], 0)
        from unnest(levels) with ordinality as p (priority, n) order by p.n);

    insert into pgdispatch.lanes (workspace_id, version)
    select n.workspace_id, nextval('pgdispatch.lane_versions')
    from (select distinct u.workspace_id from unnest(workspaces) as u (workspace_id)) n
    -- One by one: what an anti-join would read once are the versions that an old snapshot keeps, too.
    where (select l.version from pgdispatch.lanes l where l.workspace_id = n.workspace_id limit 1) is null;

    -- Nothing is given out of a lane before a look has said what holds; one that is full or paused must be looked at too.
    update pgdispatch.lanes l
    set version = nextval('pgdispatch.lane_versions'),
        active = greatest(l.active - n.freed, 0),
        slots = greatest(l.slots, l.active + 1),
        paused = false,
        ready_priority = null,
        next_due_at = at_time,
        waiting_from = least(l.waiting_from, n.run_at)
    from (
        select u.workspace_id, sum(u.freed) as freed, min(u.run_at) as run_at
        from unnest(workspaces, freed, run_ats) as u (workspace_id, freed, run_at)
        group by u.workspace_id
    ) n
    cross join lateral (
        select k.ctid as at from pgdispatch.lanes k where k.workspace_id = n.workspace_id order by k.version desc limit 1
    ) k
    where l.ctid = k.at;
end;
$$;
