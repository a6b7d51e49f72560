-- For claim_rows: the rows for each entry's grant, without rows that others have locked and namespaces that take no more.
-- It looks at up to 100 rows beyond a grant but no further: the cost of a claim must not grow with a namespace's backlog.
create or replace function pgdispatch.claim_rows_around(own_namespace text, p pgdispatch.claim_proposal, grants integer[], parked bigint[],
    at_time timestamptz) returns tid[]
language plpgsql volatile
as $$
begin
    return (
        select array_agg(h.at order by h.place, h.run_at, h.id)
        from (
            select h.*, row_number() over (partition by h.namespace order by h.place, h.run_at, h.id) as nth
            from unnest(p.entries) with ordinality e
            cross join lateral (
                select q.ctid as at, e.ordinality as place, near.run_at, near.id, coalesce(d.namespace, own_namespace) as namespace
                from (
                    ({{ template "parts/near.sql" "e.limit_key is null and q.limit_key is null" }})
                    union all
                    ({{ template "parts/near.sql" "q.limit_key = e.limit_key" }})
                ) near
                left join pgdispatch.workflow_definitions d on d.id = near.workflow_definition_id
                join pgdispatch.workflow_execution_queue q on q.id = near.id
                where q.stage = 'WAITS' and coalesce((p.namespaces ->> coalesce(d.namespace, own_namespace))::integer, 1) > 0
                order by near.run_at, near.id limit grants[e.ordinality] for update of q skip locked
            ) h
        ) h
        where h.nth <= coalesce((p.namespaces ->> h.namespace)::integer, h.nth)
    );
end;
$$;
