{{- /* What a claim does to an item, q. Its condition says to which. */ -}}
update pgdispatch.workflow_execution_queue q
set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
    lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'),
    attempt_count = q.attempt_count + 1
