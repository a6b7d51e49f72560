-- What a replica reads into its memory of waiting items: see package claim/schedule.

{{- /* For look and arrivals: the transactions that the snapshot g.sees sees and g.seen does not, in spans without those
       that run in g.sees. An index scan would read every row of a great transaction, only to find that it is not visible. */ -}}
{{ define "spans" -}}
select (lag(e.xid, 1, pg_snapshot_xmax(g.seen)::text::bigint - 1) over (order by e.xid) + 1)::text::xid8 as first_xid,
           (e.xid - 1)::text::xid8 as last_xid
    from given g
    cross join lateral (
        select r.xid::text::bigint as xid from pg_snapshot_xip(g.sees) as r (xid) where r.xid >= pg_snapshot_xmax(g.seen)
        union all
        select pg_snapshot_xmax(g.sees)::text::bigint
    ) e
    union all
    select x.xid, x.xid from given g, pg_snapshot_xip(g.seen) as x (xid) where pg_visible_in_snapshot(x.xid, g.sees)
{{ end }}
{{- /* The first item of each key queue, after the key queue that the arguments after_... name. The argument is that of next_queue. */ -}}
{{ define "queues" -}}
with recursive key_queue as (
        (select after_workspace as workspace_id, after_priority as priority, after_key as limit_key, null::timestamptz as run_at, null::bigint as id
         where after_workspace is not null
         union all
         (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
          from pgdispatch.workflow_execution_queue q
          where after_workspace is null and q.stage = 'WAITS' and {{ template "of_queues" . }}
          order by q.workspace_id, q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1))
        union all
        select following.*
        from key_queue l
        cross join lateral (
            {{ template "next_queue" . }}
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and {{ template "of_queues" . }} and q.workspace_id > l.workspace_id
             order by q.workspace_id, q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            limit 1
        ) following
    )
    select l.* from key_queue l where num_nonnulls(l.id) > 0
{{ end }}
{{- /* The first item of the key queue after l in its workspace: of the next limit key, of no key, or of the next priority. With
       an argument, among the items of that transaction: without an ID, which its index does not have. */ -}}
{{ define "next_queue" -}}
(select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint as id{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "of_queues" . }} and q.priority = l.priority
               and q.limit_key > l.limit_key
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "of_queues" . }} and q.priority = l.priority
               and q.limit_key is null and l.limit_key is not null
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "of_queues" . }} and q.priority < l.priority
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
{{ end }}
{{- /* Which waiting items next_queue looks at: all, by their index, or with an argument those of that transaction. */ -}}
{{ define "of_queues" -}}
{{ if . }}q.enqueue_xid = {{ . }}{{ else }}q.run_at >= '-infinity'{{ end }}{{ end }}

-- name: look
-- reads
-- $1 the snapshot of the last look, $2 how many new items to read at most: if they are that many, see arrivals for what
-- came; $3 the epoch of the last load. Returns what changed since: a row per priority level and limit key of a workspace
-- at which items arrived or wait again; without a priority, a workspace where so many items, of these limit keys, ended
-- or, without items, a limit changed; without a workspace, all limits. Every row has the new snapshot, the time, when the
-- first unanswered start is to be repeated, and whether it lost two holders. A mark may be read twice but is never
-- missed: gap is true if marks that the old snapshot does not see were trimmed, or if that snapshot is from another epoch
-- or cluster, in which other transactions had the same IDs. Then everything that waits must be loaded.
with given as (select $1::text::pg_snapshot as seen, pg_current_snapshot() as sees), span as materialized (
    {{ template "spans" }}
), change as (
    select q.workspace_id, q.priority, q.limit_key, null::text[] as limit_keys, min(q.run_at) as due, count(*)::integer as items
    from (
        select q.*
        from span s
        cross join lateral (
            select q.workspace_id, q.priority, q.limit_key, q.run_at from pgdispatch.workflow_execution_queue q
            where q.stage = 'WAITS' and q.enqueue_xid between s.first_xid and s.last_xid offset 0
        ) q
        limit $2::integer
    ) q
    group by q.workspace_id, q.priority, q.limit_key
    union all
    select w.id, m.priority, m.limit_keys[1], m.limit_keys, m.due, m.completed + m.failed + m.cancelled
    from span s
    cross join lateral (select m.* from pgdispatch.marks m where m.xid between s.first_xid and s.last_xid offset 0) m
    left join lateral unnest(m.workspaces) as w (id) on true
)
select pg_current_snapshot()::text as seen, clock_timestamp() as now,
       d.run_at as unanswered_at, coalesce(d.suspect, false) as suspect, s.priority_aging as aging, s.paused,
       pg_snapshot_xmin(g.seen) < t.trimmed_to or pg_snapshot_xmax(g.seen) > pg_snapshot_xmax(pg_current_snapshot())
           or not exists (select from pgdispatch.epoch e where e.id = $3::text::uuid) as gap,
       c.items is not null as changed, c.workspace_id, c.priority, coalesce(c.limit_key, '') as limit_key, c.limit_keys, c.due, c.items, w.wake_number
from given g
cross join (select t.trimmed_to from pgdispatch.mark_trim t limit 1) t
cross join (select s.priority_aging, s.paused from pgdispatch.settings s limit 1) s
left join lateral (
    select q.run_at, q.lost_lease_count >= 2 as suspect
    from pgdispatch.workflow_execution_queue q
    where q.stage = 'DOUBT' and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
    order by q.run_at, q.id limit 1
) d on true
left join change c on true
left join lateral (select w.wake_number from pgdispatch.workspaces w where w.id = c.workspace_id offset 0) w on true

-- name: load
-- reads
-- A page of what waits, of at most $5 key queues: of all items or, with $1, of those that this transaction has enqueued; from
-- the first key queue on or after the key queue of workspace $2, priority $3 and limit key $4. A key queue is the items of a workspace,
-- priority and limit key. For each: its first item, whether that is parked, how many of how many slots of the workspace
-- are held (counted as far as needed), its burst limit, and whether the key is at its limit there and over all
-- workspaces. Every row also has the snapshot, the time and the unanswered starts, as in look. If no key queue is left, there
-- is one row with only these.
with level as materialized (
    select l.workspace_id, l.priority, l.limit_key, l.run_at, l.id, row_number() over (partition by l.workspace_id) = 1 as first
    from (
        (select l.* from pgdispatch.waiting_queues($2::text::uuid, $3::integer, $4::text) l where $1::text is null limit $5::integer)
        union all
        (select l.* from pgdispatch.arrived_queues($1::text::xid8, $2::text::uuid, $3::integer, $4::text) l
         where $1::text is not null limit $5::integer)
    ) l
)
select pg_current_snapshot()::text as seen, clock_timestamp() as now,
       d.run_at as unanswered_at, coalesce(d.suspect, false) as suspect, s.priority_aging as aging, s.paused,
       l.workspace_id, l.priority, coalesce(l.limit_key, '') as limit_key, l.run_at, l.id,
       coalesce(max(n.wake_number) over w, 0) as wake_number, max(n.held) over w as held, max(n.slots) over w as slots,
       pgdispatch.burst_limit(max(n.slots) over w, max(n.burst) over w) as burst_limit, bool_or(n.paused) over w as workspace_paused,
       exists (select from pgdispatch.parked_items p where p.item_id = l.id) as parked,
       exists (select from pgdispatch.limits k where k.key = l.limit_key and k.workspace_id = l.workspace_id and (k.paused or k.max_concurrent <= (
           select count(*) from (select from pgdispatch.workflow_execution_queue q where q.limit_key = l.limit_key
               and q.workspace_id = l.workspace_id and q.stage in ('HOLDS', 'DOUBT') limit k.max_concurrent) h))) as own_full,
       exists (select from pgdispatch.limits k where k.key = l.limit_key and k.workspace_id is null and (k.paused or k.max_concurrent <= (
           select count(*) from (select from pgdispatch.workflow_execution_queue q where q.limit_key = l.limit_key
               and q.stage in ('HOLDS', 'DOUBT') limit k.max_concurrent) h))) as all_full
from (select s.priority_aging, s.paused from pgdispatch.settings s limit 1) s
left join lateral (
    select q.run_at, q.lost_lease_count >= 2 as suspect
    from pgdispatch.workflow_execution_queue q
    where q.stage = 'DOUBT' and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
    order by q.run_at, q.id limit 1
) d on true
left join level l on true
left join lateral ( -- once for each workspace; with joins disabled, a set would be read for each level
    select w.wake_number, coalesce(w.paused, false) as paused,
           coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) * (not coalesce(w.paused, false))::integer as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst,
           (select count(*)::integer
            from (select from pgdispatch.workflow_execution_queue q
                  where q.workspace_id = l.workspace_id and q.stage in ('HOLDS', 'DOUBT')
                  limit greatest(coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
                                 coalesce(w.max_burst_workflows, t.max_burst_workflows))) h) as held
    from (select) one
    left join pgdispatch.workspaces w on w.id = l.workspace_id
    left join pgdispatch.workspace_tiers t on t.plan = w.plan
    where l.first or l.workspace_id is null
    offset 0
) n on true
window w as (partition by l.workspace_id)

-- name: arrivals
-- reads
-- What was enqueued after snapshot $1 and is in snapshot $2, when a look found too much: of each transaction its first
-- $3 key queues. See the function.
select a.xid::text, a.workspace_id, a.priority, coalesce(a.limit_key, '') as limit_key, a.run_at as due, w.wake_number
from pgdispatch.arrivals($1::text::pg_snapshot, $2::text::pg_snapshot, $3::integer) a
left join lateral (select w.wake_number from pgdispatch.workspaces w where w.id = a.workspace_id offset 0) w on true

{{- /* Begins an epoch if there is none. A failover may have forgotten the last claims, and the sequence that numbered them,
while their owners still run: their tokens are not drawn again, or an old owner could settle the claim of another. The
distance is random, because a failover may forget that an epoch began, too. */ -}}
{{ define "begin_epoch" -}}
insert into pgdispatch.epoch (items_to) select (select coalesce(max(q.id), 0) from pgdispatch.workflow_execution_queue q)
    from setval('pgdispatch.lease_tokens', nextval('pgdispatch.lease_tokens') + 1000000 + (random() * 1000000)::bigint)
    where not exists (select from pgdispatch.epoch) on conflict do nothing
{{- end }}

-- name: epoch
-- writes the epoch
-- Returns the epoch, which it begins if the server has lost the last one in a crash or a promotion. Null if another
-- transaction is just beginning it.
with begun as (
    {{ template "begin_epoch" }} returning id
)
select coalesce((select b.id from begun b), (select e.id from pgdispatch.epoch e))::text

-- name: enqueued_before
-- reads
-- $1 items, $2 snapshot. Returns the workspaces of those that were enqueued before it, or in another cluster.
select distinct q.workspace_id::text
from pgdispatch.workflow_execution_queue q
where q.id = any ($1::bigint[])
  and (pg_visible_in_snapshot(q.enqueue_xid, $2::text::pg_snapshot) or not pg_visible_in_snapshot(q.enqueue_xid, pg_current_snapshot()))

-- function: waiting_queues
-- The first item of each key queue of waiting items: those of a workspace, priority and limit key (null: without one), in
-- this order, after the given key queue (null: all). Steps through the index, so the cost is that of the rows that the caller
-- takes, who may set a limit. An SQL function without its own search_path, so that it is inlined into the statements
-- that call it.
create or replace function pgdispatch.waiting_queues(after_workspace uuid, after_priority integer, after_key text)
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    {{ template "queues" }}
$$;

-- function: arrived_queues
-- waiting_queues, of the items that one transaction has enqueued. The IDs are 0.
create or replace function pgdispatch.arrived_queues(xid xid8, after_workspace uuid, after_priority integer, after_key text)
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    {{ template "queues" "xid" }}
$$;

-- function: arrivals
-- What was enqueued after the snapshot seen and is in the snapshot sees: of each transaction its first key queues, at_most, in
-- the order of waiting_queues. A transaction with so many may have more. The cost is an index step for each transaction
-- and key queue, however many items there are.
create or replace function pgdispatch.arrivals(seen pg_snapshot, sees pg_snapshot, at_most integer)
returns table (xid xid8, workspace_id uuid, priority integer, limit_key text, run_at timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    with recursive given as (select arrivals.seen, arrivals.sees), span as materialized (
    {{ template "spans" }}
    ), came as (
        select s.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                            where q.stage = 'WAITS' and q.enqueue_xid between s.first_xid and s.last_xid
                            order by q.enqueue_xid limit 1) as xid
        from span s
        union all
        select c.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                            where q.stage = 'WAITS' and q.enqueue_xid > c.xid and q.enqueue_xid <= c.last_xid
                            order by q.enqueue_xid limit 1)
        from came c
        where c.xid is not null
    )
    select c.xid, l.workspace_id, l.priority, l.limit_key, l.run_at
    from came c
    cross join lateral (select l.* from pgdispatch.arrived_queues(c.xid, null, null, null) l limit at_most) l
$$;
