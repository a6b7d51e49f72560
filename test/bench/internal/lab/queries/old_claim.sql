-- The claim from before the redesign, for databases migrated by a binary of that time.
-- PENDING -> CLAIMED; CLAIMED -> PENDING
-- $1 owner, $2 maximum, $3 lease, $4 the owner's namespace, $5 limited namespaces, $6 number of items of each, $7 the
-- replica that will wait for their ends (null if none has room). Items with expired leases go back first. The last row
-- has no id: see the function.
select c.id, c.lease_token, c.execution_id::text, c.workspace_id::text, c.workflow_definition_id::text, c.workflow_definition_version_id::text,
       c.namespace, c.workflow_type, c.task_queue, c.execution_timeout, c.node_ids, c.params, c.traceparent,
       c.attempt_count, c.failure_count, c.max_attempts, c.outcome_unknown, c.unanswered_for, c.problem, c.waited, c.more, c.capped, c.look_again_in,
       c.paused, c.at_capacity
from pgdispatch.claim($1, $2, $3, $4, $5, $6, $7) c
