-- writes a version of a workflow definition and the audit log
-- $1 definition, $2 graph, $3 who. Returns the version, which is one more than the newest.
with locked as materialized (
    select d.id from pgdispatch.workflow_definitions d where d.id = $1::text::uuid for update
), made as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select l.id, coalesce(max(v.version), 0) + 1, $2::text::jsonb
    from locked l left join pgdispatch.workflow_definition_versions v on v.workflow_definition_id = l.id
    group by l.id
    returning workflow_definition_id, version, jsonb_array_length(node_ids) as nodes
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'definitions version', 'definition ' || m.workflow_definition_id, to_jsonb(m) - 'workflow_definition_id'
    from made m
)
select m.version from made m
