-- For claim: the rows to claim for each entry's grant, ordered by run_at; in total at most `most`, in the order of the
-- entries. Also returns the first remaining item of each entry, due or not. If careful, or if namespaces are limited,
-- it may skip rows, and looks at up to 100 beyond the grant but no further: the cost of a claim must not grow with a
-- namespace's backlog.
create or replace function pgdispatch.claim_heads(workspaces uuid[], priorities integer[], grants integer[], due timestamptz[], ids bigint[],
    most integer, at_time timestamptz, careful boolean, own_namespace text, namespaces text[], allowed integer[],
    out heads tid[], out next_place integer[], out next_due timestamptz[], out next_id bigint[])
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    parked bigint[] := {{ template "parts/parked.sql" }};
begin
    if not careful and cardinality(namespaces) = 0 then
        select array_agg(h.at) filter (where h.gets), array_agg(h.place) filter (where not h.gets),
               array_agg(h.run_at) filter (where not h.gets), array_agg(h.id) filter (where not h.gets)
        into heads, next_place, next_due, next_id
        from unnest(workspaces, priorities, grants, due, ids) with ordinality as p (workspace_id, priority, grants, due, id, place)
        cross join lateral (
            select q.ctid as at, p.place::integer as place, q.run_at, q.id,
                   row_number() over (order by q.run_at, q.id) <= p.grants and q.run_at <= at_time as gets
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = p.workspace_id and q.priority = p.priority and q.stage = 'WAITS'
              and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id) and q.id <> all (parked)
            order by q.run_at, q.id limit p.grants + 1
        ) h;
        if coalesce(cardinality(heads), 0) <= most then
            return;
        end if;
    else
        select array_agg(h.at order by h.place, h.run_at, h.id) into heads
        from (
            select h.at, p.place, h.run_at, h.id, h.namespace, row_number() over (partition by h.namespace order by p.place, h.run_at, h.id) as nth
            from unnest(workspaces, priorities, grants, due, ids) with ordinality as p (workspace_id, priority, grants, due, id, place)
            cross join lateral (
                select q.ctid as at, near.run_at, near.id, coalesce(d.namespace, own_namespace) as namespace
                from (
                    select q.id, q.run_at, q.workflow_definition_id
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = p.workspace_id and q.priority = p.priority and q.stage = 'WAITS'
                      and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id) and q.run_at <= at_time and q.id <> all (parked)
                    order by q.run_at, q.id limit p.grants + 100
                ) near
                left join pgdispatch.workflow_definitions d on d.id = near.workflow_definition_id
                join pgdispatch.workflow_execution_queue q on q.id = near.id
                where q.stage = 'WAITS' and coalesce(allowed[array_position(namespaces, coalesce(d.namespace, own_namespace))], 1) > 0
                order by near.run_at, near.id limit p.grants for update of q skip locked
            ) h
        ) h
        where h.nth <= coalesce(allowed[array_position(namespaces, h.namespace)], h.nth);
    end if;
    heads := heads[1:most];
    select array_agg(h.place), array_agg(h.run_at), array_agg(h.id) into next_place, next_due, next_id
    from unnest(workspaces, priorities, due, ids) with ordinality as p (workspace_id, priority, due, id, place)
    cross join lateral (
        select p.place::integer as place, q.run_at, q.id
        from pgdispatch.workflow_execution_queue q
        where q.workspace_id = p.workspace_id and q.priority = p.priority and q.stage = 'WAITS'
          and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id) and q.ctid <> all (coalesce(heads, '{}')) and q.id <> all (parked)
        order by q.run_at, q.id limit 1
    ) h;
end;
$$;
