-- PENDING -> CLAIMED, for claim: the next items of the lanes whose turn it is, as where no namespace is limited, but of limited ones
-- no more than remains for each. Returns them, whose they are, the lanes it looked into, and how many it chose from.
--
-- It looks at the next hundred items of a lane's level, and not behind them: what a claim costs must not grow with what waits for a
-- namespace. A lane in which it finds nothing is looked at again in a while: see lane_head.
create or replace function pgdispatch.claim_around(owner text, room integer, lease interval, start_time timestamptz, all_levels integer[], served_floors bigint[],
    touched pgdispatch.lane_now[], barren uuid[], own_namespace text, namespaces text[], remaining integer[],
    out given bigint[], out given_to uuid[], out picked pgdispatch.lane_now[], out candidates bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    lanes constant integer := greatest(room, 50); -- more than room, because some give nothing
    closed constant text[] := array(select n.namespace from unnest(namespaces, remaining) as n (namespace, items) where n.items = 0);
begin
    with candidate as materialized (
        {{ template "parts/candidates.sql" "lanes" }}
    ), top as materialized (
        select c.*, least(count(*) over (), room) as sharers, row_number() over (order by c.last_served, c.workspace_id) as turn
        from candidate c
        where c.ready_priority = (select max(m.ready_priority) from candidate m)
        order by c.last_served, c.workspace_id
        limit lanes
    ), open_item as materialized (
        select o.id, o.namespace, row_number() over (partition by o.namespace order by o.nth, o.turn) as place, o.turn, o.nth
        from (
            select i.id, i.namespace, p.turn, row_number() over (partition by p.turn order by i.run_at, i.id) as nth
            from top p
            cross join lateral (
                select q.id, q.run_at, coalesce(d.namespace, own_namespace) as namespace
                from (
                    select q.id, q.run_at, q.workflow_definition_id
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = p.workspace_id and q.priority = p.ready_priority
                      and q.status = 'PENDING' and not q.outcome_unknown
                      and q.run_at >= p.waiting_from and q.run_at <= start_time
                    order by q.run_at, q.id
                    limit 100
                ) q
                left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
                where coalesce(d.namespace, own_namespace) <> all (closed)
                order by q.run_at, q.id
                limit least(p.slots - p.active, floor(p.tokens), (room + p.sharers - 1) / p.sharers)
            ) i
        ) o
    ), heads as materialized (
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.id = any (array(
                select o.id from open_item o
                where o.place <= coalesce(remaining[array_position(namespaces, o.namespace)], room)
                order by o.turn, o.nth
                limit room))
          and q.status = 'PENDING' and not q.outcome_unknown
        for update skip locked
    ), taken as (
        {{ template "parts/take.sql" }}
        where q.id = any (array(select h.id from heads h))
        returning q.id, q.workspace_id
    )
    select coalesce(array_agg(t.id), '{}'), array_agg(t.workspace_id),
           (select array_agg({{ template "parts/lane_now.sql" "p" }}) from top p),
           (select count(*) from candidate)
    into given, given_to, picked, candidates
    from taken t;
end;
$$;
