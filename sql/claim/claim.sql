-- PENDING -> CLAIMED; CLAIMED -> PENDING
-- $1 owner, $2 lease, $3 watcher, $4 epoch, $5 at most, $6 unanswered starts, $7 alone; $8 and $9 the receipt of the
-- leased items. For each entry of the proposal: $10 workspace, $11 priority, $12 items, $13 and $14 the position to
-- begin at (run_at, ID), and its receipt: $15 floor, $16 holders, $17 up to this token. $18 careful; $19 the owner's
-- namespace, $20 limited namespaces, $21 how many items of each. $22 the limit keys of the entries, null without any;
-- $23 which entries may go beyond the limit of their workspace, null if none. The last row has no item: see the
-- function.
select coalesce(c.id, 0) as id, coalesce(c.lease_token, 0) as token, coalesce(c.execution_id::text, '') as execution_id,
       coalesce(c.workspace_id::text, '') as workspace_id, c.workspace_id as lane,
       coalesce(c.workflow_definition_id::text, '') as workflow_definition_id,
       coalesce(c.workflow_definition_version_id::text, '') as workflow_definition_version_id,
       coalesce(c.namespace, '') as namespace, coalesce(c.workflow_type, '') as workflow_type, coalesce(c.task_queue, '') as task_queue,
       coalesce(c.execution_timeout, '0') as execution_timeout, c.node_ids, c.params, coalesce(c.traceparent, '') as traceparent,
       coalesce(c.attempt_count, 0) as attempt_count, coalesce(c.failure_count, 0) as failure_count, coalesce(c.max_attempts, 0) as max_attempts,
       coalesce(c.outcome_unknown, false) as outcome_unknown,
       case when c.outcome_unknown then c.unanswered_for else '0' end as unanswered_for,
       coalesce(c.problem, '') as problem, coalesce(c.waited, '0') as waited, coalesce(c.priority, 0) as priority,
       c.start_options, coalesce(c.limit_key, '') as limit_key, c.standing
from pgdispatch.claim_items($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9, $10::text[]::uuid[], $11, $12, $13, $14, $15, $16, $17,
                            $18, $19, $20, $21, $22, $23) c
