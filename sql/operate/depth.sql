-- How much waits, is claimed and runs. All counts are bounded.

{{- /* The waiting items that arrived first, as many as the argument says. Transactions that run are left out: an index
       scan would read every row of a great one, only to find that it is not visible. pg_snapshot_xip returns them in
       order, so s are the spans between them. */ -}}
{{ define "earliest" -}}
select q.limit_key, q.workspace_id, q.run_at
        from unnest('0'::xid8 || array(select pg_snapshot_xip(pg_current_snapshot())),
                    array(select pg_snapshot_xip(pg_current_snapshot())) || '18446744073709551615'::xid8) as s (after_xid, before_xid)
        cross join lateral (
            select q.limit_key, q.workspace_id, q.run_at from pgdispatch.workflow_execution_queue q
            where q.stage = 'WAITS' and q.enqueue_xid > s.after_xid and q.enqueue_xid < s.before_xid
            order by q.enqueue_xid
        ) q
        limit {{ . -}}
{{ end }}

{{- /* The items of the key queue k that meet a condition. */ -}}
{{ define "key_queue_items" -}}
(select from pgdispatch.workflow_execution_queue q
     where q.workspace_id = k.id and q.priority = k.priority and q.limit_key = k.key and q.stage = 'WAITS' and {{ . }}
     limit at_most)
    union all
    (select from pgdispatch.workflow_execution_queue q
     where q.workspace_id = k.id and q.priority = k.priority and q.limit_key is null and k.key is null and q.stage = 'WAITS' and {{ . }}
     limit at_most)
{{- end }}

-- name: queue_depth
-- reads
-- $1 how many items of a status are counted at most. pending are the due ones.
select d.waiting as pending, d.scheduled, d.scheduled_exact, u.items as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       u.uncertain, clock_timestamp() - u.uncertain_since as oldest_uncertain,
       d.claimed, d.dispatched, d.dead as dead_letters, d.dead_is_all as dead_letters_exact,
       d.oldest_waiting, d.replicas, d.max_claims, d.paused,
       l.at as paused_since, coalesce(l.who, '') as paused_by,
       s.task_queues as idle_queues, s.without_poller, s.failing, pg_notification_queue_usage() as notify_queue,
       p.items as parked, p.first as parked_first, a.items as failing_alone, a.first as failing_alone_first,
       (select count(*) from (select from pgdispatch.missing_executions m
                              where m.asked_at > clock_timestamp() - interval '3 minutes' limit $1) m) as missing,
       pgdispatch.vanished() as vanished,
       g.open as signals, clock_timestamp() - g.oldest as oldest_signal, g.given_up as signals_given_up
from pgdispatch.queue_counts($1) d
cross join (
    select coalesce(sum(u.items), 0)::bigint as items, min(u.since) as since,
           coalesce(sum(u.uncertain), 0)::bigint as uncertain, min(u.uncertain_since) as uncertain_since
    from pgdispatch.unanswered($1) u
) u
cross join (
    select count(*) filter (where s.kind = 'TASK_QUEUE') as task_queues,
           coalesce(sum(s.executions) filter (where s.kind = 'TASK_QUEUE'), 0) as without_poller,
           count(*) filter (where s.kind = 'EXECUTION') as failing
    from pgdispatch.stalled s
) s
left join lateral pgdispatch.paused_by(d.paused, d.max_claims) l on d.paused or d.max_claims = 0
cross join (
    select count(*) as items, coalesce((array_agg(p.item_id || ': ' || p.error order by p.parked_at, p.item_id))[1], '') as first
    from (select p.* from pgdispatch.parked_items p limit $1) p
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = p.item_id offset 0) q -- per row
    where q.attempt_count = p.attempts and q.status in ('PENDING', 'CLAIMED')
) p
cross join ( -- 3: see dispatch/worker.go
    select count(*) as items,
           coalesce((array_agg(t.item_id || ': ' || coalesce(q.last_error, '') order by t.since, t.item_id))[1], '') as first
    from (select t.* from pgdispatch.start_tries t where t.tries >= 3 limit $1) t
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = t.item_id offset 0) q -- per row
    where q.status in ('PENDING', 'CLAIMED')
) a
cross join (
    select (select count(*) from (select from pgdispatch.signals s where s.state = 'OPEN' limit $1) s) as open,
           (select min(s.sent_at) from (select s.sent_at from pgdispatch.signals s where s.state = 'OPEN' and s.next_try_at < 'infinity'
                                        order by s.next_try_at limit $1) s) as oldest,
           (select count(*) from (select from pgdispatch.signals s
                                  where s.state = 'GIVEN_UP' and s.settled_at > clock_timestamp() - interval '1 day' limit $1) s) as given_up
) g

-- name: view_depth
-- reads
-- $1 workspaces, $2 how many items of a status are counted at most. Like queue_depth, of these workspaces only, and
-- without what cannot be told apart by workspace. Replicas and settings are those of all.
with given as materialized (
    select w.id from unnest($1::text[]::uuid[]) w (id)
), holders as materialized (
    select n.status from given w
    cross join lateral (select q.status from pgdispatch.workflow_execution_queue q
                        where q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT')
                        order by q.lease_token desc limit $2::bigint) n
    limit $2::bigint
), unanswered as (
    select coalesce(sum(u.items), 0)::bigint as items, min(u.since) as since,
           coalesce(sum(u.uncertain), 0)::bigint as uncertain, min(u.uncertain_since) as uncertain_since
    from pgdispatch.unanswered($2::bigint) u where u.workspace_id in (select w.id from given w)
), failures as materialized (
    select q.id, q.workspace_id from pgdispatch.workflow_execution_queue q
    where q.stage = 'DEAD' order by q.finished_at desc, q.id desc limit $2::bigint
), dead as ( -- one by one, as in queue_depth
    select from (select f.id from failures f where f.workspace_id in (select w.id from given w)) f
    left join lateral (
        select m.item_id, m.replay_id from pgdispatch.dead_letter_marks m where m.item_id = f.id offset 0
    ) m on true
    left join lateral (select q.status from pgdispatch.workflow_execution_queue q where q.id = m.replay_id offset 0) r on true
    where m.item_id is null or r.status = 'CANCELLED'
), parked as (
    select count(*) as items,
           coalesce((array_agg(p.item_id || ': ' || p.error order by p.parked_at, p.item_id))[1], '') as first
    from (select p.* from pgdispatch.parked_items p limit $2::bigint) p
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = p.item_id offset 0) q -- per row
    where q.attempt_count = p.attempts and q.status in ('PENDING', 'CLAIMED')
      and q.workspace_id in (select w.id from given w)
), alone as (
    select count(*) as items,
           coalesce((array_agg(t.item_id || ': ' || coalesce(q.last_error, '') order by t.since, t.item_id))[1], '') as first
    from (select t.* from pgdispatch.start_tries t where t.tries >= 3 limit $2::bigint) t
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = t.item_id offset 0) q -- per row
    where q.status in ('PENDING', 'CLAIMED') and q.workspace_id in (select w.id from given w)
), failing as (
    select count(*) as executions
    from pgdispatch.stalled t
    where t.kind = 'EXECUTION' and exists (
        select from pgdispatch.workflow_executions e
        where e.id = case t.kind when 'EXECUTION' then t.name::uuid end and e.workspace_id in (select w.id from given w))
)
select n.due as pending, n.scheduled, n.scheduled_exact, u.items as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       u.uncertain, clock_timestamp() - u.uncertain_since as oldest_uncertain,
       (select count(*) from holders h where h.status = 'CLAIMED') as claimed,
       (select count(*) from holders h where h.status = 'DISPATCHED') as dispatched,
       (select count(*) from dead) as dead_letters, (select count(*) < $2::bigint from failures) as dead_letters_exact,
       clock_timestamp() - n.oldest_due as oldest_waiting,
       (select count(*) from pgdispatch.replicas r where r.expires_at > clock_timestamp()) as replicas,
       s.max_claims, s.paused, 0 as idle_queues, 0 as without_poller, f.executions as failing,
       0::double precision as notify_queue, p.items as parked, p.first as parked_first,
       a.items as failing_alone, a.first as failing_alone_first,
       (select count(*) from pgdispatch.missing_executions m join pgdispatch.workflow_executions e on e.id = m.execution_id
        where m.asked_at > clock_timestamp() - interval '3 minutes' and e.workspace_id in (select w.id from given w)) as missing,
       '{}'::text[] as vanished, l.at as paused_since,
       '' as paused_by, 0 as signals, null::interval as oldest_signal, 0 as signals_given_up
from unanswered u
cross join pgdispatch.waiting_counts($1::text[]::uuid[], $2::integer) n
cross join parked p
cross join alone a
cross join failing f
cross join pgdispatch.settings s
left join lateral pgdispatch.paused_by(s.paused, s.max_claims) l on s.paused or s.max_claims = 0

-- function: queue_depth
-- queue_counts for replicas of the version before it. pending are all that wait, due or not, and the unanswered.
create or replace function pgdispatch.queue_depth(at_most integer)
returns table (pending bigint, claimed bigint, dispatched bigint, dead bigint, dead_is_all boolean, oldest_waiting interval,
    replicas bigint, max_claims integer, paused boolean)
language sql stable
as $$
    select c.waiting + c.scheduled + (
               select count(*) from (select from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' limit at_most) u
           ),
           c.claimed, c.dispatched, c.dead, c.dead_is_all, c.oldest_waiting, c.replicas, c.max_claims, c.paused
    from pgdispatch.queue_counts(at_most) c
$$;

-- function: queue_counts
-- The queue as a whole. Counts at most at_most of the waiting items, the scheduled items and the slot holders; if there
-- are more that wait or hold slots, the statistics of their index give an estimate. Leased items are the newest holders, so
-- they are counted among ten times as many of the newest. Dead letters are counted among the newest failures; dead_is_all is
-- true if those are all failures.
create or replace function pgdispatch.queue_counts(at_most integer)
returns table (waiting bigint, scheduled bigint, scheduled_exact boolean, claimed bigint, dispatched bigint, dead bigint, dead_is_all boolean,
    oldest_waiting interval, replicas bigint, max_claims integer, paused boolean)
language sql stable
-- Uses indexes that need no sorting, whatever the tables looked like at their last ANALYZE. Otherwise all rows are
-- read.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
-- A disabled plan type costs 10^10, which would compile the statement with JIT for most of a second.
set jit = off
as $$
    with unanswered as materialized (
        select from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' limit at_most
    ), holders as materialized (
        select from pgdispatch.workflow_execution_queue q where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0
        order by q.lease_token desc
        limit at_most
    ), newest as materialized (
        select q.status from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
        order by q.lease_token desc
        limit 10 * at_most
    ), failures as materialized (
        select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc, q.id desc limit at_most
    ), handled as materialized (
        -- The opposite of failed_items.open, whose join could start from all failures. By the IDs, because otherwise all marks
        -- are read for each failure if there were few at the last ANALYZE.
        select from (select m.replay_id from pgdispatch.dead_letter_marks m where m.item_id = any (array(select f.id from failures f)) offset 0) m
        left join lateral (select q.status from pgdispatch.workflow_execution_queue q where q.id = m.replay_id offset 0) r on true
        where r.status is distinct from 'CANCELLED'
    ), counted (unanswered, holders, claimed) as (
        select (select count(*) from unanswered), (select count(*) from holders),
               (select count(*) from newest n where n.status = 'CLAIMED')
    ), about (waiting, holders) as (
        select (select c.reltuples from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue_arrivals'::regclass),
               (select c.reltuples from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue_leased'::regclass)
    )
    select case when w.due_exact then w.due else greatest(w.due, about.waiting - w.scheduled)::bigint end,
           w.scheduled,
           w.scheduled_exact,
           n.claimed,
           greatest(case when n.holders < at_most then n.holders else greatest(n.holders, about.holders)::bigint end - n.claimed - n.unanswered, 0),
           (select count(*) from failures) - (select count(*) from handled),
           (select count(*) < at_most from failures),
           clock_timestamp() - w.oldest_due,
           (select count(*) from pgdispatch.replicas r where r.expires_at > clock_timestamp()),
           s.max_claims,
           s.paused
    from counted n, about, pgdispatch.settings s, pgdispatch.waiting_counts(null, at_most) w;
$$;

-- function: unanswered
-- Workspaces with unanswered starts or uncertain claims: how many of each, and since when the first of them was sent. Reads
-- no more than at_most of them, each with its execution. There are few at any time, but in an outage of Temporal.
drop function if exists pgdispatch.unanswered(bigint); -- it returned other columns
create or replace function pgdispatch.unanswered(at_most bigint)
returns table (workspace_id uuid, items bigint, since timestamptz, uncertain bigint, uncertain_since timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes, whatever the tables looked like at their last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    select d.workspace_id, count(*) filter (where not d.uncertain), min(coalesce(e.first_sent_at, d.created_at)) filter (where not d.uncertain),
           count(*) filter (where d.uncertain), min(coalesce(e.first_sent_at, d.created_at)) filter (where d.uncertain)
    from (
        select q.workspace_id, q.execution_id, q.created_at, {{ template "uncertain" }} as uncertain
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'DOUBT' order by q.run_at, q.id limit at_most
    ) d
    left join lateral (
        select e.first_sent_at from pgdispatch.workflow_executions e where e.id = d.execution_id offset 0
    ) e on true
    group by d.workspace_id
$$;

-- function: pending_count
-- How many items of a workspace wait, due or not. Two counts, each with its own index.
create or replace function pgdispatch.pending_count(workspace_id uuid) returns bigint
language sql stable
as $$
    select (
        select count(*) from pgdispatch.workflow_execution_queue q
        where q.workspace_id = pending_count.workspace_id and q.stage = 'WAITS'
          and q.run_at >= '-infinity' -- always true: makes the index fit
    ) + (
        -- Few at any time. A separate query, or all slot holders of the workspace could be read for them.
        select count(*)
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' offset 0) d
        where d.workspace_id = pending_count.workspace_id
    );
$$;

-- function: longest_waiting
-- Workspaces with due items, unanswered starts or uncertain claims, and since when the longest-due item of each has been
-- due, or its first such start was sent. Looks at the priority levels and limit keys at which items wait, ordered by workspace ID; if
-- there are at_most, at the items that arrived first; and at the unanswered starts: at no more than at_most of each, so its
-- cost is bounded, whatever waits.
create or replace function pgdispatch.longest_waiting(at_most bigint)
returns table (workspace_id uuid, waiting_from timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes, whatever the table looked like at its last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    with key_queues as materialized (
        select w.workspace_id, w.run_at as since from pgdispatch.waiting_queues(null, null, null) w limit at_most
    )
    select l.workspace_id, min(l.since)
    from (
        select k.* from key_queues k
        union all
        select a.workspace_id, a.run_at from ({{ template "earliest" "at_most" }}) a
        where (select count(*) from key_queues) = at_most
        union all
        select u.workspace_id, least(u.since, u.uncertain_since) from pgdispatch.unanswered(at_most) u
    ) l
    where l.since <= clock_timestamp()
    group by l.workspace_id
$$;

-- function: waiting_queues_of
-- waiting_queues of these workspaces, breadth first: the first key queue of every workspace before the second of any.
create or replace function pgdispatch.waiting_queues_of(workspaces uuid[])
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    with recursive key_queue as (
        select head.*
        from unnest(workspaces) w (id)
        cross join lateral (
            select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
            order by q.priority desc, q.limit_key, q.run_at, q.id limit 1
        ) head
        union all
        select following.*
        from key_queue l
        cross join lateral (
            {{ template "next_queue" }}
            limit 1
        ) following
    )
    select l.* from key_queue l
$$;

-- function: waiting_among
-- Since when the longest-due item of each of these workspaces has been due; none for one without. One index step for
-- each of their key queues (see waiting_queues), breadth first: at most at_most of them, and the first of every workspace
-- before the second of any.
create or replace function pgdispatch.waiting_among(workspaces uuid[], at_most integer)
returns table (workspace_id uuid, oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the index, whatever the table looked like at its last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    select l.workspace_id, min(l.run_at)
    from (select l.* from pgdispatch.waiting_queues_of(workspaces) l limit at_most) l
    where l.run_at <= clock_timestamp()
    group by l.workspace_id
$$;

-- function: waiting_counts
-- The waiting items of these workspaces (null: all): how many are due and how many are scheduled, each counted up to
-- at_most, and since when the longest-due one has been due. Of all, it looks at those that arrived first and, if these are
-- at_most, at key queues (see waiting_queues), as it does of some: at no more than at_most of them, and at none beyond the
-- first 1,000. Of all, and where there are more key queues, it counts the scheduled items among the next at_most that are.
-- A count is exact if it did not stop early. In plpgsql, so that its plans are kept.
create or replace function pgdispatch.waiting_counts(workspaces uuid[], at_most integer, out due bigint, out due_exact boolean,
    out scheduled bigint, out scheduled_exact boolean, out oldest_due timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes that need no sorting, whatever the table looked like at its last ANALYZE.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    present constant timestamptz := clock_timestamp();
    queues constant integer := least(at_most, 1000);
    ids uuid[];
    priorities integer[];
    keys text[];
    heads timestamptz[];
    items bigint;
    scheduled_first bigint := 0; -- of those that arrived first
begin
    if workspaces is null then
        select count(*), count(*) filter (where a.run_at <= present), min(a.run_at) filter (where a.run_at <= present)
        into items, due, oldest_due
        from ({{ template "earliest" "at_most" }}) a;
        scheduled_first := items - due;
        if items < at_most then
            select scheduled_first, true, true into scheduled, due_exact, scheduled_exact;
            return;
        end if;
    end if;
    select array_agg(w.workspace_id), array_agg(w.priority), array_agg(w.limit_key), array_agg(w.run_at)
    into ids, priorities, keys, heads
    from ((select w.* from pgdispatch.waiting_queues(null, null, null) w where workspaces is null limit queues)
          union all
          (select w.* from pgdispatch.waiting_queues_of(workspaces) w limit queues)) w;
    select least(oldest_due, min(h.run_at)) into oldest_due from unnest(heads) h (run_at) where h.run_at <= present;
    select greatest(count(*), items - scheduled_first) into due
    from (select from unnest(ids, priorities, keys, heads) k (id, priority, key, head)
          cross join lateral (
    {{ template "key_queue_items" "q.run_at <= present" }}
          ) n
          where k.head <= present and items - scheduled_first is distinct from at_most -- else it is known
          limit at_most) n;
    due_exact := due < at_most and coalesce(cardinality(ids), 0) < queues;
    if workspaces is not null then
        select count(*) into scheduled
        from (select from unnest(ids, priorities, keys) k (id, priority, key)
              cross join lateral (
    {{ template "key_queue_items" "q.run_at > present" }}
              ) n
              limit at_most) n;
        scheduled_exact := scheduled < at_most;
    end if;
    if workspaces is null or coalesce(cardinality(ids), 0) = queues then
        select count(*) < at_most, greatest(count(*) filter (where workspaces is null or l.workspace_id = any (workspaces)), scheduled)
        into scheduled_exact, scheduled
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q
              where q.stage = 'WAITS' and q.run_at > q.created_at and q.run_at > present
              order by q.run_at limit at_most) l;
    end if;
end;
$$;

-- function: holders_of
-- How many items of a workspace are leased and run, each counted up to at_most.
create or replace function pgdispatch.holders_of(workspace uuid, at_most integer, out claimed bigint, out running bigint)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    select least(count(*) filter (where n.status = 'CLAIMED'), at_most), least(count(*) filter (where n.status = 'DISPATCHED'), at_most)
    from (select q.status from pgdispatch.workflow_execution_queue q
          where q.workspace_id = workspace and q.stage in ('HOLDS', 'DOUBT')
          order by q.lease_token desc limit 2 * at_most) n
$$;

-- function: waiting_of
-- waiting_counts and holders_of for replicas of the version before them. items are due or not.
create or replace function pgdispatch.waiting_of(workspace uuid, at_most integer, out items bigint, out claimed bigint,
    out running bigint, out oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select least(n.due + n.scheduled, at_most), h.claimed, h.running, n.oldest_due
    from pgdispatch.waiting_counts(array[workspace], at_most) n, pgdispatch.holders_of(workspace, at_most) h
$$;
