-- $1 workspace, $2 definition, $3 executions, $4 params, $5 priority, $6 delay until it is due, $7 ID or null,
-- $8 delay until its start_before or null. Half of the items whose workflows take less than a second have a limit key,
-- so that only workspaces' limits hold back the long ones. A few more have one with a rate, but none of a flood, which
-- would take minutes. An item whose wait is measured has none.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params, priority, run_at, workflow_id, start_before, limit_key)
select $1::uuid, $2::uuid, e, $4::jsonb, $5::integer, now() + $6::interval, $7::text, now() + $8::interval,
       case when ($4::jsonb ->> 'ms')::integer < 1000 and not $4::jsonb ? 'measured' then
           case abs(hashtext(e::text)) % 4 when 0 then 'shared' when 1 then 'own'
               when 2 then case when cardinality($3::uuid[]) < 20 and hashtext(e::text) > 1000000000 then 'metered' end end end
from unnest($3::uuid[]) as e
