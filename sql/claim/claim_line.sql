-- PENDING -> CLAIMED
-- claim for the usual case, at about half its cost: items of one line, without limit key, burst, limited namespaces or
-- unanswered starts. Run lock_claims before it in the same transaction. $1 owner, $2 lease, $3 watcher, $4 epoch, $5 at
-- most; $6 and $7 the receipt of the leased items; $8 workspace, $9 priority, $10 items, $11 and $12 the position to
-- begin at (run_at, ID), and the workspace's receipt: $13 floor, $14 holders, $15 up to this token; $16 the owner's
-- namespace. The answer is that of claim. If `declined` in its standing is true, it has taken nothing, because
-- there is something that only claim knows: a rate, an expired lease, another epoch or a deleted workspace.
with now as materialized (
    select clock_timestamp() as at_time, coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0) as last_token
), leased as materialized (
    select array_agg(q.lease_token) as tokens, coalesce(min(q.lease_expires_at) <= (select n.at_time from now n), false) as expired,
           max(q.lost_lease_count) filter (where q.claimed_by = $1::text and q.lease_expires_at > (select n.at_time from now n)) as lost
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED' and q.lease_token > $7::bigint
), state as materialized (
    select n.at_time, n.last_token, s.paused, e.id as epoch, l.tokens, w.wake_number, w.paused as stopped, b.slots,
           pgdispatch.burst_limit(b.slots, coalesce(w.max_burst_workflows, t.max_burst_workflows)) as burst,
           case when s.paused or l.lost >= 2 then 0
                else greatest(s.max_claims - $6::integer - coalesce(cardinality(l.tokens), 0), 0) end as room,
           l.expired or w.id is null or w.max_starts_per_second is not null or (e.id = $4::text::uuid) is not true as declined,
           case when $15::bigint <= n.last_token then $13::bigint else 0 end as floor,
           case when $15::bigint <= n.last_token then $14::integer + (n.last_token - $15::bigint) end as bound
    from now n
    cross join leased l
    cross join (select s.paused, s.max_claims from pgdispatch.settings s limit 1) s
    left join (select e.id from pgdispatch.epoch e limit 1) e on true
    left join (pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan) on w.id = $8::text::uuid
    cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) as slots) b
), counted as materialized (
    select case when not s.declined and (s.bound + $10::integer < s.slots) is not true then (
               select array[count(*), min(q.lease_token)] from pgdispatch.workflow_execution_queue q
               where q.workspace_id = $8::text::uuid and q.stage in ('HOLDS', 'DOUBT')
                 -- as a pair, because only the workspace's own index serves it
                 and (q.workspace_id, q.lease_token) >= ($8::text::uuid, s.floor)) end as counts
    from state s
), granted as materialized (
    select case when s.declined or s.stopped then 0
                else greatest(least($10::integer, s.slots - coalesce(c.counts[1], s.bound)), 0)::integer end as items
    from state s cross join counted c
), head as materialized (
    select q.ctid as at, q.run_at, q.id, row_number() over (order by q.limit_key, q.run_at, q.id)
               <= (select least(g.items, $5::integer, s.room) from granted g, state s)
               and q.run_at <= (select n.at_time from now n) as gets
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = $8::text::uuid and q.priority = $9::integer and q.limit_key is null and q.stage = 'WAITS'
      and q.run_at >= $11::timestamptz and (q.run_at, q.id) >= ($11::timestamptz, $12::bigint)
      and q.id <> all (array(select p.item_id from pgdispatch.parked_items p where p.try_at > (select n.at_time from now n)))
    order by q.limit_key, q.run_at, q.id
    limit (select case when s.declined then 0 else least(g.items, $5::integer, s.room) + 1 end from granted g, state s)
), taken as (
    update pgdispatch.workflow_execution_queue q
    set status = 'CLAIMED', claimed_by = $1::text, claimed_at = clock_timestamp(),
        lease_expires_at = clock_timestamp() + $2::interval, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
    where q.ctid = any (array(select h.at from head h where h.gets)) -- skips rows that changed since they were chosen
      and case q.stage when 'WAITS' then q.run_at <= (select n.at_time from now n) and q.workspace_id = $8::text::uuid
                                         and q.priority = $9::integer end -- a case, because it can use no index
    returning q.*
), item as materialized (
    select q.*, v.id as version_id, v.node_ids::text as nodes, d.workflow_type, d.task_queue, d.execution_timeout, d.max_attempts,
           case when num_nonnulls(d.start_options, q.start_options) > 0 then
               (coalesce(d.start_options, '{}') || coalesce(q.start_options, '{}'))::text
           end as options,
           coalesce(d.namespace, $16::text) as namespace,
           case
               when d.id is null then 'workflow definition not found'
               when v.id is null then 'workflow definition has no version'
               when q.lost_lease_count >= 3 then 'holder lost three times, the last time with this item alone'
               else ''
           end as problem
    from taken q
    left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
    left join lateral (
        select v.id, v.node_ids from pgdispatch.workflow_definition_versions v
        where v.workflow_definition_id = q.workflow_definition_id
        order by v.version desc limit 1
    ) v on true
), execution as ( -- the row exists before its start is sent
    insert into pgdispatch.workflow_executions as e
        (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, watcher, first_sent_at)
    select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, $3::text, n.at_time
    from item i cross join now n
    where i.version_id is not null
    on conflict (id) do update
    set workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace,
        watcher = excluded.watcher, first_sent_at = excluded.first_sent_at
)
select i.id, i.lease_token as token, i.execution_id::text, i.workspace_id::text, i.workspace_id as lane,
       coalesce(i.workflow_definition_id::text, '') as workflow_definition_id, coalesce(i.version_id::text, '') as workflow_definition_version_id,
       coalesce(i.namespace, '') as namespace, coalesce(i.workflow_type, '') as workflow_type, coalesce(i.task_queue, '') as task_queue,
       coalesce(i.execution_timeout, '0') as execution_timeout, i.nodes as node_ids, i.params::text, coalesce(i.traceparent, '') as traceparent,
       i.attempt_count, i.failure_count, coalesce(i.max_attempts, 0) as max_attempts, i.outcome_unknown,
       interval '0' as unanswered_for, i.problem, n.at_time - greatest(i.created_at, i.run_at) as waited, i.priority,
       i.options as start_options, '' as limit_key, null::json as standing
from item i cross join now n
union all
select 0, 0, '', '', null, '', '', '', '', '', '0', null, null, '', 0, 0, 0, false, '0', '', '0', 0, null, '',
       json_build_object('at_time', s.at_time, 'declined', s.declined, 'epoch', s.epoch, 'paused', s.paused, 'room', s.room,
           'last_token', s.last_token, 'tokens', s.tokens, 'grants', array[g.items], 'rates', array[null::integer],
           'facts', array[array[s.slots, s.stopped::integer, s.wake_number, s.burst]],
           'counts', case when c.counts is not null then array[c.counts] end,
           'next_place', case when x.at is not null then array[1] end, 'next_due', case when x.at is not null then array[x.run_at] end,
           'next_id', case when x.at is not null then array[x.id] end,
           'took', (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::bigint)
from state s cross join counted c cross join granted g
left join (select h.at, h.run_at, h.id from head h where not h.gets order by h.run_at, h.id limit 1) x on true
