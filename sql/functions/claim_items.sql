-- PENDING -> CLAIMED. Claims the items that a proposal asks for, as far as the limits allow, and returns all that is
-- needed to start them. The caller's memory has decided whose turn it is: see package claim/schedule. claim_grants
-- checks the proposal against the tables. doubts is how many unanswered starts to repeat; alone means that it is one
-- that may have killed its holders. Of a namespace in namespaces, at most allowed items are claimed; definitions
-- without a namespace use own_namespace. If careful, locked rows are skipped; otherwise the claim waits for them, up to
-- the lock_timeout that claim_choose sets. watcher is the replica that will watch the executions; null means no room.
-- The settle decides it, and if it writes the same value, no index entry changes. The last row has a null id; its
-- standing is JSON that says how the entries stand. A receipt in it is true once this transaction has committed.
create or replace function pgdispatch.claim_items(owner text, lease interval, watcher text, own_epoch uuid, at_most integer, doubts integer,
    alone boolean, leased integer, leased_to bigint, workspaces uuid[], priorities integer[], items integer[], due timestamptz[], ids bigint[],
    floors bigint[], held integer[], held_to bigint[], careful boolean, own_namespace text, namespaces text[], allowed integer[],
    keys text[], bursts boolean[])
returns table (
    id bigint, lease_token bigint, execution_id uuid, workspace_id uuid, workflow_definition_id uuid, workflow_definition_version_id uuid,
    namespace text, workflow_type text, task_queue text, execution_timeout interval, node_ids text, params text, traceparent text,
    attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean, unanswered_for interval, problem text,
    waited interval, priority integer, start_options text, limit_key text, standing json
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    c record;
begin
    c := pgdispatch.claim_choose(owner, own_epoch, at_most, doubts, alone, leased, leased_to, workspaces, priorities, items,
        due, ids, floors, held, held_to, careful, own_namespace, namespaces, allowed, keys, bursts);
    return query
    with taken as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
        where q.ctid = any (c.heads) and q.run_at <= c.at_time -- skips rows that changed since they were chosen
          and (q.stage = 'WAITS' and q.workspace_id = any (workspaces) and q.priority = any (priorities) or doubts > 0 and q.stage = 'DOUBT')
        returning q.*
    ), item as materialized (
        select q.*, v.id as version_id, v.node_ids, d.workflow_type, d.task_queue, d.execution_timeout, d.max_attempts,
               case when num_nonnulls(d.start_options, q.start_options) > 0 then
                   (coalesce(d.start_options, '{}') || coalesce(q.start_options, '{}'))::text
               end as options,
               -- A start that may have arrived is repeated unchanged; otherwise the definition may have been corrected.
               coalesce(e.namespace, d.namespace, own_namespace) as namespace,
               case when q.outcome_unknown then coalesce(e.first_sent_at, q.created_at) else c.at_time end as first_sent_at,
               case
                   when d.id is null and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id) then 'workspace not found'
                   when d.id is null then 'workflow definition not found'
                   when v.id is null then 'workflow definition has no version'
                   when q.lost_lease_count >= 3 then 'holder lost three times, the last time with this item alone'
               end as problem
        from taken q
        left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
        left join lateral (select e.namespace, e.first_sent_at, e.workflow_definition_version_id as version_id from pgdispatch.workflow_executions e
                           where q.outcome_unknown and e.id = q.execution_id offset 0) e on true
        left join lateral (
            select v.id, v.node_ids from pgdispatch.workflow_definition_versions v
            where v.workflow_definition_id = q.workflow_definition_id and (not q.outcome_unknown or v.id = coalesce(e.version_id, v.id))
            order by v.version desc limit 1
        ) v on true
    ), execution as ( -- the row exists before its start is sent
        insert into pgdispatch.workflow_executions as e
            (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, watcher, first_sent_at)
        select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, watcher, i.first_sent_at
        from item i where i.version_id is not null
        on conflict (id) do update
        set workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace,
            watcher = excluded.watcher, first_sent_at = excluded.first_sent_at
    )
    select i.id, i.lease_token, i.execution_id, i.workspace_id, i.workflow_definition_id, i.version_id,
           i.namespace, i.workflow_type, i.task_queue, i.execution_timeout, i.node_ids::text, i.params::text, i.traceparent,
           i.attempt_count, i.failure_count, i.max_attempts, i.outcome_unknown, c.at_time - i.first_sent_at, i.problem,
           c.at_time - greatest(i.created_at, i.run_at), i.priority, i.options, i.limit_key, null::json
    from item i;
    if c.allows is not null then
        perform pgdispatch.claim_debit(workspaces, c.rates, c.allows, c.last_token, c.at_time);
    end if;
    if c.rated then
        perform pgdispatch.claim_key_debit(keys, c.last_token, c.at_time);
    end if;
    if c.epoch is null and cardinality(c.heads) > 0 then
        insert into pgdispatch.epoch default values on conflict do nothing;
    end if;
    c.heads := null;
    c.took := extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000; -- microseconds, without commit
    standing := to_json(c);
    return next;
end;
$$;
