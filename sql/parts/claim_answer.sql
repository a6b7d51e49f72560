{{- /* For claim: what starting the claimed items needs, and their executions. */ -}}
with item as materialized (
    select q.id, q.lease_token, q.execution_id, q.workspace_id, q.workflow_definition_id, v.id as version_id,
           -- Where a start may have arrived, it is repeated; where none did, the definition may have been corrected.
           coalesce(e.namespace, d.namespace, own_namespace) as namespace,
           d.workflow_type, d.task_queue, d.execution_timeout, v.node_ids, q.params, q.traceparent,
           q.attempt_count, q.failure_count, d.max_attempts, q.outcome_unknown, q.run_at, q.created_at,
           case when not q.outcome_unknown then start_time else coalesce(e.first_sent_at, q.created_at) end as first_sent_at,
           case
               when d.id is null and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id) then 'workspace not found'
               when d.id is null then 'workflow definition not found'
               when v.id is null then 'workflow definition has no version'
               when q.lost_lease_count >= 3 then 'holder lost three times, the last time with this item alone'
           end as problem
    from pgdispatch.workflow_execution_queue q
    left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
    -- Of a start that may have arrived, and only of that.
    left join lateral (
        select e.namespace, e.first_sent_at, e.workflow_definition_version_id as version_id
        from pgdispatch.workflow_executions e
        where q.outcome_unknown and e.id = q.execution_id
        offset 0
    ) e on true
    left join lateral (
        select v.id, v.node_ids
        from pgdispatch.workflow_definition_versions v
        where v.workflow_definition_id = q.workflow_definition_id
          and (not q.outcome_unknown or v.id = coalesce(e.version_id, v.id))
        order by v.version desc
        limit 1
    ) v on true
    where q.id = any (claimed)
), execution as (
    insert into pgdispatch.workflow_executions as e
        (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, watcher, first_sent_at)
    select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, watcher, i.first_sent_at
    from item i
    where i.version_id is not null
    on conflict (id) do update
    set workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace, watcher = excluded.watcher,
        first_sent_at = excluded.first_sent_at
)
select i.id, i.lease_token, i.execution_id, i.workspace_id, i.workflow_definition_id, i.version_id,
       i.namespace, i.workflow_type, i.task_queue, i.execution_timeout, i.node_ids::text, i.params::text, i.traceparent,
       i.attempt_count, i.failure_count, i.max_attempts, i.outcome_unknown, start_time - i.first_sent_at, i.problem,
       clock_timestamp() - greatest(i.created_at, i.run_at), null::boolean, null::boolean, null::interval,
       null::boolean, null::text
from item i;
