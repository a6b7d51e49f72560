-- PENDING -> CLAIMED. Claims the items that a proposal asks for, as far as the limits allow, and returns all that is
-- needed to start them. The caller's memory has decided whose turn it is (see package claim/schedule) and may be wrong in
-- any way: claim_pick checks the proposal against the tables. watcher is the replica that will watch the executions; null
-- means no room. The settle decides it, and if it writes the same value, no index entry changes. Definitions without a
-- namespace use own_namespace. The last row has no item, but the standing. A receipt in it is true once this transaction
-- has committed.
create or replace function pgdispatch.claim(owner text, lease interval, watcher text, own_namespace text, proposal jsonb)
returns table (
    id bigint, token bigint, execution_id text, workspace_id text, workflow_definition_id text,
    workflow_definition_version_id text, namespace text, workflow_type text, task_queue text, execution_timeout interval, node_ids text,
    params text, traceparent text, attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean,
    unanswered_for interval, problem text, waited interval, priority integer, start_options text, limit_key text, standing json
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    p pgdispatch.claim_proposal := jsonb_populate_record(null::pgdispatch.claim_proposal, proposal);
    workspaces uuid[] := array(select e.workspace_id from unnest(p.entries) e);
    priorities integer[] := array(select e.priority from unnest(p.entries) e);
    c record;
begin
    c := pgdispatch.claim_pick(owner, own_namespace, p);
    return query
    with taken as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
        where q.ctid = any (c.heads) and q.run_at <= c.at_time -- skips rows that changed since they were chosen
          and (q.stage = 'WAITS' and q.workspace_id = any (workspaces) and q.priority = any (priorities)
               or p.unanswered > 0 and q.stage = 'DOUBT')
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
    select i.id, i.lease_token, i.execution_id::text, i.workspace_id::text, i.workflow_definition_id::text,
           coalesce(i.version_id::text, ''), coalesce(i.namespace, ''), coalesce(i.workflow_type, ''), coalesce(i.task_queue, ''),
           coalesce(i.execution_timeout, '0'), i.node_ids::text, i.params::text, coalesce(i.traceparent, ''), i.attempt_count,
           i.failure_count, coalesce(i.max_attempts, 0), i.outcome_unknown, c.at_time - i.first_sent_at, coalesce(i.problem, ''),
           c.at_time - greatest(i.created_at, i.run_at), i.priority, i.options, coalesce(i.limit_key, ''), null::json
    from item i;
    if c.rated then
        perform pgdispatch.claim_debits(p.entries, c.entries, c.last_token, c.at_time);
    end if;
    if c.epoch is null and cardinality(c.heads) > 0 then
        insert into pgdispatch.epoch default values on conflict do nothing;
    end if;
    c.heads := null;
    c.took := extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000; -- microseconds, without commit
    return query select 0::bigint, 0::bigint, '', '', '', '', '', '', '', interval '0', null, null, '', 0, 0, 0, false,
        interval '0', '', interval '0', 0, null, '', to_json(c);
end;
$$;
