-- The claim of plain key queues, as one statement: what most claims are.

-- name: lock_claims
-- writes the lock of claims
-- For claim_plain, which follows in the same transaction.
select pgdispatch.lock_claims()

-- name: claim_plain
-- PENDING -> CLAIMED
-- claim for the usual case, which it serves cheaper: items of key queues of different workspaces, without limit keys, bursts,
-- limited namespaces or unanswered starts. Run lock_claims before it in the same transaction. $1 owner, $2 lease,
-- $3 watcher, $4 epoch, $5 at most; $6 and $7 the receipt of the leased items. One element for each entry: $8 its workspace,
-- $9 priority, $10 items, $11 and $12 the position to begin at (run_at, ID), and the workspace's receipt: $13 floor,
-- $14 holders, $15 up to this token. $16 the owner's namespace. The answer is that of claim; its standing is in the row of the
-- first item, if there is one. If `declined` in it is true, the statement has taken nothing, because there is something that
-- only claim knows: a rate, an expired lease, another epoch or a deleted workspace.
with state as materialized (
    select n.at_time, n.last_token, s.paused, e.id as epoch, e.items_to, l.tokens,
           case when s.paused or l.lost >= 2 then 0
                else greatest(s.max_claims - $6::integer - coalesce(cardinality(l.tokens), 0), 0) end as room,
           l.expired or (e.id = $4::text::uuid) is not true as unusual,
           array(select p.item_id from pgdispatch.parked_items p where p.try_at > n.at_time) as parked
    from (select clock_timestamp() as at_time, coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0) as last_token) n
    cross join lateral (
        select array_agg(q.lease_token) as tokens, coalesce(min(q.lease_expires_at) <= n.at_time, false) as expired,
               max(q.lost_lease_count) filter (where q.claimed_by = $1::text and q.lease_expires_at > n.at_time) as lost
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED' and q.lease_token > $7::bigint
    ) l
    cross join pgdispatch.settings s
    left join pgdispatch.epoch e on true
), entry as materialized (
    select a.*, w.wake_number, w.paused as stopped, n.slots, pgdispatch.burst_limit(n.slots, n.bursts) as burst_slots,
           w.id is null or w.max_starts_per_second is not null as unusual,
           case when a.held_to <= s.last_token then a.floor else 0 end as counted_from,
           case when a.held_to <= s.last_token then a.held + (s.last_token - a.held_to) end as bound
    from unnest($8::uuid[], $9::integer[], $10::integer[], $11::timestamptz[], $12::bigint[], $13::bigint[], $14::integer[], $15::bigint[])
         with ordinality as a (workspace_id, priority, items, run_at, id, floor, held, held_to, place)
    cross join state s
    left join (pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan) on w.id = a.workspace_id
    cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) as slots,
                               coalesce(w.max_burst_workflows, t.max_burst_workflows) as bursts) n
), limits as materialized (
    select s.at_time, s.parked, s.unusual or exists (select from entry e where e.unusual) as declined, least($5::integer, s.room) as most
    from state s
), granted as materialized ( -- heads are the rows for the entry's grant and the one after them
    select e.*, c.counts, g.grants, h.heads, h.run_ats, h.ids, least(h.due, g.grants, l.most)::integer as gets
    from entry e
    cross join limits l
    cross join lateral (
        select case when not l.declined and (e.bound + e.items < e.slots) is not true then (
                   select array[count(*), min(q.lease_token)] from pgdispatch.workflow_execution_queue q
                   where q.workspace_id = e.workspace_id and q.stage in ('HOLDS', 'DOUBT')
                     -- as a pair, which only the workspace's own index serves: a plan might read the dead rows of all
                     and (q.workspace_id, q.lease_token) >= (e.workspace_id, e.counted_from)) end as counts
        offset 0 -- counts once
    ) c
    cross join lateral (
        select case when l.declined or e.stopped then 0
                    else greatest(least(e.items, e.slots - coalesce(c.counts[1], e.bound)), 0)::integer end as grants
    ) g
    cross join lateral (
        select array_agg(h.ctid) as heads, array_agg(h.run_at) as run_ats, array_agg(h.id) as ids,
               count(*) filter (where h.run_at <= l.at_time) as due
        from (
            select q.ctid, q.run_at, q.id
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = e.workspace_id and q.priority = e.priority and q.limit_key is null and q.stage = 'WAITS'
              and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id) and q.id <> all (l.parked)
            order by q.limit_key, q.run_at, q.id
            limit case when l.declined then 0 else least(g.grants, l.most) + 1 end
        ) h
    ) h
), chosen as materialized ( -- in the order of the entries, which share what W leaves
    select array(
        select h.at from granted g cross join lateral unnest(g.heads[:g.gets]) with ordinality as h (at, nth)
        order by g.place, h.nth
        limit (select l.most from limits l)
    ) as heads
), taken as (
    update pgdispatch.workflow_execution_queue q
    set status = 'CLAIMED', claimed_by = $1::text, claimed_at = clock_timestamp(),
        lease_expires_at = clock_timestamp() + $2::interval, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
    where q.ctid = any ((select c.heads from chosen c)::tid[]) -- skips rows that changed since they were chosen
      and case q.stage when 'WAITS' then -- a case, because it can use no index
              q.run_at <= (select s.at_time from state s)
              and q.workspace_id = any ($8::uuid[]) and q.priority = any ($9::integer[])
              and (q.start_before > (select s.at_time from state s) or q.failure_count > 0) is not false end -- see cancel_late
    returning q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.priority, q.params, q.traceparent, q.start_options,
              q.created_at, q.run_at, q.lease_token, q.attempt_count, q.failure_count, q.workflow_id
), item as materialized (
    select q.*, v.id as version_id, v.revision, d.input, d.workflow_type, d.task_queue, d.execution_timeout, d.max_attempts,
           d.workflow_id_policy,
           case when num_nonnulls(d.start_options, q.start_options) > 0 then
               (coalesce(d.start_options, '{}') || coalesce(q.start_options, '{}'))::text
           end as options,
           coalesce(d.namespace, $16::text) as namespace, coalesce(d.kind, 'workflow') as kind,
           case
               when (d.id is null or v.id is null and d.input = 'envelope') and cardinality(pgdispatch.hidden_tables()) > 0 then 'rows are hidden'
               when d.id is null then 'workflow definition not found'
               when v.id is null and d.input = 'envelope' then 'workflow definition has no version'
               else ''
           end as problem
    from taken q
    left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
    left join lateral (
        select v.id, v.xmin::text as revision from pgdispatch.workflow_definition_versions v
        where v.workflow_definition_id = q.workflow_definition_id
        order by v.version desc limit 1
    ) v on true
), execution as ( -- the row exists before its start is sent
    insert into pgdispatch.workflow_executions as e
        (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, kind, watcher,
         first_sent_at, workflow_id)
    select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, i.kind, $3::text,
           s.at_time, i.workflow_id
    from item i cross join state s
    where i.workflow_type is not null and (i.version_id is not null or i.input <> 'envelope')
    on conflict (id) do update
    set workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace,
        watcher = excluded.watcher, first_sent_at = excluded.first_sent_at
)
select coalesce(i.id, 0) as id, coalesce(i.lease_token, 0) as token, coalesce(i.execution_id::text, '') as execution_id,
       coalesce(i.workspace_id::text, '') as workspace_id,
       coalesce(i.workflow_definition_id::text, '') as workflow_definition_id, coalesce(i.version_id::text, '') as workflow_definition_version_id,
       coalesce(i.namespace, '') as namespace, coalesce(i.kind, '') as kind,
       coalesce(i.workflow_type, '') as workflow_type, coalesce(i.task_queue, '') as task_queue,
       coalesce(i.input, '') as input,
       coalesce(i.execution_timeout, '0') as execution_timeout, coalesce(i.revision, '') as version_revision, i.params::text,
       coalesce(i.traceparent, '') as traceparent,
       coalesce(i.attempt_count, 0) as attempt_count, coalesce(i.failure_count, 0) as failure_count, coalesce(i.max_attempts, 0) as max_attempts,
       false as outcome_unknown, -- it takes no unanswered start, and so no item that has lost a holder
       case when i.workflow_id is not null and i.id <= s.items_to then greatest(s.at_time - i.created_at, '1 us') else '0' end as unanswered_for,
       0 as tries, interval '0' as failing_for, interval '0' as missing_for, '' as last_error, '' as given_up_by,
       coalesce(i.problem, '') as problem,
       coalesce(s.at_time - greatest(i.created_at, i.run_at), '0') as waited, coalesce(i.priority, 0) as priority,
       i.options as start_options, '' as limit_key, coalesce(i.workflow_id, '') as workflow_id,
       case when i.workflow_id is not null then coalesce(i.workflow_id_policy, '') else '' end as workflow_id_policy,
       case when i.lease_token is not distinct from (select min(o.lease_token) from item o) then
           json_build_object('at_time', s.at_time, 'declined', (select l.declined from limits l), 'epoch', s.epoch, 'paused', s.paused,
               'room', s.room, 'last_token', s.last_token, 'tokens', s.tokens,
               'entries', (
                   select json_agg(json_build_object(
                       'granted', g.grants, 'slots', g.slots, 'burst_slots', g.burst_slots, 'paused', g.stopped,
                       'wake_number', g.wake_number, 'holders', g.counts[1], 'lowest_token', g.counts[2]) order by g.place)
                   from granted g),
               'next', (
                   select json_agg(json_build_object('entry', g.place, 'run_at', h.run_at, 'id', h.id))
                   from granted g
                   cross join chosen c
                   cross join lateral unnest(g.heads, g.run_ats, g.ids) as h (at, run_at, id)
                   where h.at <> all (c.heads)),
               'took', (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::bigint)
       end as standing
from state s left join item i on true

-- function: lock_claims
-- For claims: takes claim_lock, so that they run one at a time. From then on, the transaction waits at most 50 ms for a
-- row. Before claim_plain it is a statement of its own, because the snapshot of a claim must be newer than its lock.
create or replace function pgdispatch.lock_claims() returns void
language plpgsql volatile
as $$
declare
    was text;
begin
    -- A snapshot from before the lock would count outdated holders.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'claim requires READ COMMITTED, but this transaction is %', current_setting('transaction_isolation')
            using errcode = 'PGD30', hint = 'Use READ COMMITTED, or no transaction.';
    end if;
    if current_setting('plan_cache_mode') <> 'force_generic_plan' then
        -- Behind a pooler, a connection lacks the settings of claim.Planning. Every access has its index, and stale
        -- statistics must not make the planner avoid it. A disabled plan type costs 10^10, which would compile each
        -- statement with JIT.
        perform set_config(n.name, n.value, true)
        from (values ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'),
                     ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) as n (name, value);
    end if;
    was := set_config('lock_timeout', '5s', true); -- longer than for a row
    lock table pgdispatch.claim_lock in share row exclusive mode;
    was := set_config('lock_timeout', '50ms', true);
end;
$$;
