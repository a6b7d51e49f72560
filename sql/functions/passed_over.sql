-- Whether the next items of a level, of those that are due, are all of closed namespaces. It looks at a hundred: what is behind them
-- waits with them, so that a look costs no more the more there is.
create or replace function pgdispatch.passed_over(workspace uuid, level integer, waiting_from timestamptz, at_time timestamptz, own_namespace text, closed text[])
returns boolean
language plpgsql stable
as $$
begin
    return not exists (
        select
        from (
            select q.workflow_definition_id
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = workspace and q.priority = level
              and q.status = 'PENDING' and not q.outcome_unknown
              and q.run_at >= waiting_from and q.run_at <= at_time
            order by q.run_at, q.id
            limit 100
        ) q
        left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
        where coalesce(d.namespace, own_namespace) <> all (closed));
end;
$$;
