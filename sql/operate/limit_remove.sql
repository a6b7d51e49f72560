-- writes a limit and the audit log
-- $1 workspace (null: the limit over all workspaces), $2 key, $3 who. Returns whether there was one.
with gone as (
    delete from pgdispatch.limits l where l.key = $2::text and l.workspace_id is not distinct from $1::text::uuid
    returning l.id, to_jsonb(l) - 'id' - 'workspace_id' as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'limits remove', coalesce('workspace ' || $1::text, 'limits'),
           g.details - 'key' || jsonb_build_object('limit_key', $2::text)
    from gone g
)
select exists (select from gone)
