-- $1 workspace, $2 ID, $3 name, $4 payload.
select pgdispatch.signal_workflow($1::text::uuid, $2, $3, $4::jsonb)
