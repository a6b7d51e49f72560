-- PENDING -> CLAIMED; CLAIMED -> PENDING
-- $1 owner, $2 lease, $3 watcher, $4 epoch, $5 at most, $6 unanswered starts, $7 alone; $8 and $9 the receipt of the
-- leased items. For each entry of the proposal: $10 workspace, $11 priority, $12 items, $13 and $14 the position to
-- begin at (run_at, ID), and its receipt: $15 floor, $16 holders, $17 up to this token. $18 careful; $19 the owner's
-- namespace, $20 limited namespaces, $21 how many items of each. The last row: see the function.
select c.id, c.lease_token, c.execution_id::text, c.workspace_id, c.workflow_definition_id::text, c.workflow_definition_version_id::text,
       c.namespace, c.workflow_type, c.task_queue, c.execution_timeout, c.node_ids, c.params, c.traceparent,
       c.attempt_count, c.failure_count, c.max_attempts, c.outcome_unknown, c.unanswered_for, c.problem, c.waited, c.priority, c.standing
from pgdispatch.claim($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9, $10::text[]::uuid[], $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) c
