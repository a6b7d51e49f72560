-- writes signals and the audit log
-- $1 execution, $2 name, $3 payload, $4 who. Returns the signal's ID.
with sent as materialized (
    select pgdispatch.signal($1::text::uuid, $2::text, $3::text::jsonb) as id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $4::text, 'executions signal', 'execution ' || $1::text, jsonb_build_object('signal', s.id, 'name', $2::text) from sent s
)
select s.id from sent s
