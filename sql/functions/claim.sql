-- PENDING -> CLAIMED. Gives an owner what a proposal asks for, as far as the limits allow, and all that starting it needs. Who is next, the caller's
-- memory has decided: see package claim/schedule. What it sends is held against the tables: see claim_grants. doubts is how many unanswered starts
-- are to be taken; alone: it is one that may have killed its holders. Of a namespace in namespaces no more items are given than allowed says; a
-- definition that names none means own_namespace. careful: rows that somebody has locked are passed over; else they are waited for, but not for long.
-- watcher is who is going to wait for the ends of what is given (null: nobody has room); the settle decides it, and where it says the same, it moves
-- no entry of an index. Its last row has no id, and says as JSON how the entries stand. A receipt in it is true once this transaction has been
-- committed.
create or replace function pgdispatch.claim(owner text, lease interval, watcher text, own_epoch uuid, at_most integer, doubts integer, alone boolean,
    leased integer, leased_to bigint, workspaces uuid[], priorities integer[], items integer[], due timestamptz[], ids bigint[],
    floors bigint[], held integer[], held_to bigint[], careful boolean, own_namespace text, namespaces text[], allowed integer[])
returns table (
    id bigint, lease_token bigint, execution_id uuid, workspace_id uuid, workflow_definition_id uuid, workflow_definition_version_id uuid,
    namespace text, workflow_type text, task_queue text, execution_timeout interval, node_ids text, params text, traceparent text,
    attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean, unanswered_for interval, problem text,
    waited interval, priority integer, standing json
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    c record;
begin
    c := pgdispatch.claim_choose(owner, own_epoch, at_most, doubts, alone, leased, leased_to, workspaces, priorities, items,
        due, ids, floors, held, held_to, careful, own_namespace, namespaces, allowed);
    return query
    with taken as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
        where q.ctid = any (c.heads) and q.run_at <= c.at_time -- what was moved since it was looked at is not taken
          and (q.stage = 'WAITS' and q.workspace_id = any (workspaces) and q.priority = any (priorities) or doubts > 0 and q.stage = 'DOUBT')
        returning q.*
    ), item as materialized (
        select q.*, v.id as version_id, v.node_ids, d.workflow_type, d.task_queue, d.execution_timeout, d.max_attempts,
               -- Where a start may have arrived, it is repeated; where none did, the definition may have been corrected.
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
    ), execution as ( -- there before its start is sent
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
           c.at_time - greatest(i.created_at, i.run_at), i.priority, null::json
    from item i;
    if array_remove(c.rates, null) <> '{}' then
        perform pgdispatch.claim_debit(workspaces, c.rates, c.allows, c.last_token, c.at_time);
    end if;
    if c.epoch is null and cardinality(c.heads) > 0 then
        insert into pgdispatch.epoch default values on conflict do nothing;
    end if;
    c.heads := null;
    c.took := extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000; -- what the caller waits for longer is the commit
    standing := to_json(c);
    return next;
end;
$$;
