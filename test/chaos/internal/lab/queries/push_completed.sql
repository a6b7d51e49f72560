-- $1 execution, $2 result. As an application does that does not call finish.
update pgdispatch.workflow_executions set status = 'COMPLETED', result = jsonb_build_object('pushed', $2::text) where id = $1::text::uuid
