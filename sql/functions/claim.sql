-- claim_items as replicas of the version before call it. A migration of the next version drops it, with standing_before.
create or replace function pgdispatch.claim(owner text, lease interval, watcher text, own_epoch uuid, at_most integer, doubts integer, alone boolean,
    leased integer, leased_to bigint, workspaces uuid[], priorities integer[], items integer[], due timestamptz[], ids bigint[],
    floors bigint[], held integer[], held_to bigint[], careful boolean, own_namespace text, namespaces text[], allowed integer[])
returns table (
    id bigint, lease_token bigint, execution_id uuid, workspace_id uuid, workflow_definition_id uuid, workflow_definition_version_id uuid,
    namespace text, workflow_type text, task_queue text, execution_timeout interval, node_ids text, params text, traceparent text,
    attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean, unanswered_for interval, problem text,
    waited interval, priority integer, standing json
)
language sql volatile
as $$
    select c.id, c.lease_token, c.execution_id, c.workspace_id, c.workflow_definition_id, c.workflow_definition_version_id,
           c.namespace, c.workflow_type, c.task_queue, c.execution_timeout, c.node_ids, c.params, c.traceparent,
           c.attempt_count, c.failure_count, c.max_attempts, c.outcome_unknown, c.unanswered_for, c.problem, c.waited, c.priority,
           pgdispatch.standing_before(c.standing, held, held_to)
    from pgdispatch.claim_items($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) c
$$;
