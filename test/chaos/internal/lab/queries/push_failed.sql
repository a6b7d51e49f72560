-- $1 execution, $2 reason. As an application does that does not call finish.
update pgdispatch.workflow_executions set status = 'FAILED', error = $2 where id = $1::text::uuid
