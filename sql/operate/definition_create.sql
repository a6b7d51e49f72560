-- writes a workflow definition with its first version, and the audit log
-- $1 workspace, $2 name, $3 workflow type, $4 task queue, $5 namespace (null: the replicas'), $6 max_attempts (null: 3), $7
-- execution_timeout (null: none), $8 graph, $9 who.
with made as (
    insert into pgdispatch.workflow_definitions
        (workspace_id, name, workflow_type, task_queue, namespace, max_attempts, execution_timeout)
    select w.id, $2::text, $3::text, $4::text, $5::text, coalesce($6::integer, 3), $7::interval
    from pgdispatch.workspaces w where w.id = $1::text::uuid
    returning id, workspace_id, name, workflow_type, task_queue, namespace, max_attempts, execution_timeout
), versioned as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select m.id, 1, $8::text::jsonb from made m
    returning version
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $9::text, 'definitions create', 'definition ' || m.id,
           jsonb_strip_nulls(to_jsonb(m) - 'id') || jsonb_build_object('version', v.version)
    from made m cross join versioned v
)
select m.id::text from made m
