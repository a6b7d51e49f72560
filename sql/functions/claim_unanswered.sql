-- For claim_pick: rows whose start was sent and not answered, oldest first. They already hold their slots, and only an
-- answer can free them. Such an item may have killed its holder, so one that lost two holders is claimed alone.
create or replace function pgdispatch.claim_unanswered(at_most integer, own_namespace text, p pgdispatch.claim_proposal, at_time timestamptz)
returns tid[]
language plpgsql volatile
as $$
begin
    return array(
        select d.at from (
            select u.at, u.namespace, row_number() over (partition by u.namespace order by u.run_at, u.id) as nth from (
                select q.ctid as at, q.run_at, q.id, coalesce(e.namespace, d.namespace, own_namespace) as namespace
                from pgdispatch.workflow_execution_queue q
                left join pgdispatch.workflow_executions e on e.id = q.execution_id
                left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
                where q.stage = 'DOUBT' and q.run_at <= at_time
                  and q.id <> all ({{ template "parts/parked.sql" }})
                  and (q.lost_lease_count >= 2) = p.alone
                  and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
                  and coalesce((p.namespaces ->> coalesce(e.namespace, d.namespace, own_namespace))::integer, 1) > 0
                order by q.run_at, q.id limit at_most for update of q skip locked
            ) u
        ) d
        where d.nth <= coalesce((p.namespaces ->> d.namespace)::integer, d.nth)
    );
end;
$$;
