-- PENDING -> CLAIMED, for claim: the items that have waited longest of those that are due since before a time, whatever their
-- priority, of lanes with room. Returns them, whose they are, the lanes they are of, and since when the oldest lane has waited
-- of those that the claim has not touched: none that is ready waits longer. Items of limited namespaces take no part; the lanes that
-- were looked at for nothing are returned too.
create or replace function pgdispatch.claim_aged(owner text, at_most bigint, lease interval, start_time timestamptz, due_before timestamptz,
    since timestamptz, levels integer[], touched pgdispatch.lane_now[],
    own_namespace text, limited text[],
    out given bigint[], out given_to uuid[], out picked pgdispatch.lane_now[], out oldest timestamptz)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    with ready as materialized (
        select {{ template "parts/lane_columns.sql" }}
        from pgdispatch.lanes l
        where l.active < l.slots and not l.paused and l.ready_priority is not null
          and l.waiting_from >= since and l.waiting_from < due_before
          and l.workspace_id <> all (array(select t.workspace_id from unnest(touched) t))
        order by l.waiting_from
        limit at_most + 10 -- the heads of some may be locked
    ), candidate as materialized (
        select r.* from ready r
        union all
        select t.* from unnest(touched) t
        where t.active < t.slots and not t.paused and t.ready_priority is not null and t.tokens >= 1 and t.waiting_from < due_before
    ), waiting as materialized (
        select item.id, item.run_at
        from candidate c
        cross join lateral (
            select head.id, head.run_at
            from unnest(levels) as level (priority)
            cross join lateral (
                select q.id, q.run_at, q.workflow_definition_id
                from pgdispatch.workflow_execution_queue q
                where q.workspace_id = c.workspace_id and q.priority = level.priority
                  and q.status = 'PENDING' and not q.outcome_unknown
                  and q.run_at >= c.waiting_from and q.run_at < due_before
                order by q.run_at, q.id
                limit case when cardinality(limited) = 0 then at_most else 100 end
            ) head
            where cardinality(limited) = 0 or not exists (
                select from pgdispatch.workflow_definitions d
                where d.id = head.workflow_definition_id and coalesce(d.namespace, own_namespace) = any (limited))
            order by head.run_at, head.id
            limit least(c.slots - c.active, floor(c.tokens))
        ) item
    ), heads as materialized (
        select q.id
        from waiting a
        join pgdispatch.workflow_execution_queue q on q.id = a.id
        where q.status = 'PENDING' and not q.outcome_unknown
        order by a.run_at, a.id
        limit at_most
        for update of q skip locked
    ), taken as (
        {{ template "parts/take.sql" }}
        where q.id = any (array(select h.id from heads h))
        returning q.id, q.workspace_id
    )
    select coalesce(array_agg(t.id), '{}'), coalesce(array_agg(t.workspace_id), '{}'),
           (select array_agg({{ template "parts/lane_now.sql" "c" }})
            from candidate c where cardinality(limited) > 0 or c.workspace_id in (select g.workspace_id from taken g)),
           coalesce((select min(r.waiting_from) from ready r), due_before)
    into given, given_to, picked, oldest
    from taken t;
end;
$$;
