-- For claim_unanswered: of the oldest items whose start was not answered, those that limited namespaces allow.
create or replace function pgdispatch.unanswered_allowed(start_time timestamptz, own_namespace text, namespaces text[], allowed integer[]) returns bigint[]
language plpgsql stable
as $$
begin
    return array(
        select n.id
        from (
            select u.id, u.namespace, row_number() over (partition by u.namespace order by u.run_at, u.id) as place
            from (
                select q.id, q.run_at, coalesce(e.namespace, d.namespace, own_namespace) as namespace
                from pgdispatch.workflow_execution_queue q
                left join pgdispatch.workflow_executions e on e.id = q.execution_id
                left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
                where q.status = 'PENDING' and q.outcome_unknown and q.run_at <= start_time
                  and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
                order by q.run_at, q.id
                limit 1000
            ) u
        ) n
        where n.place <= coalesce(allowed[array_position(namespaces, n.namespace)], 1000));
end;
$$;
