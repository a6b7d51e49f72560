-- For claim_heads: the rows for each entry's grant, without rows that others have locked and namespaces that take no
-- more. It looks at up to 100 rows beyond the grant but no further: the cost of a claim must not grow with a namespace's
-- backlog.
create or replace function pgdispatch.claim_around(workspaces uuid[], priorities integer[], grants integer[], due timestamptz[], ids bigint[],
    at_time timestamptz, own_namespace text, namespaces text[], allowed integer[], keys text[], parked bigint[]) returns tid[]
language plpgsql volatile
as $$
begin
    return (
        select array_agg(h.at order by h.place, h.run_at, h.id)
        from (
            select h.at, p.place, h.run_at, h.id, h.namespace, row_number() over (partition by h.namespace order by p.place, h.run_at, h.id) as nth
            from unnest(workspaces, priorities, grants, due, ids, keys) with ordinality as p (workspace_id, priority, grants, due, id, key, place)
            cross join lateral (
                select q.ctid as at, near.run_at, near.id, coalesce(d.namespace, own_namespace) as namespace
                from (
                    ({{ template "parts/near.sql" "p.key is null and q.limit_key is null" }})
                    union all
                    ({{ template "parts/near.sql" "q.limit_key = p.key" }})
                ) near
                left join pgdispatch.workflow_definitions d on d.id = near.workflow_definition_id
                join pgdispatch.workflow_execution_queue q on q.id = near.id
                where q.stage = 'WAITS' and coalesce(allowed[array_position(namespaces, coalesce(d.namespace, own_namespace))], 1) > 0
                order by near.run_at, near.id limit p.grants for update of q skip locked
            ) h
        ) h
        where h.nth <= coalesce(allowed[array_position(namespaces, h.namespace)], h.nth)
    );
end;
$$;
