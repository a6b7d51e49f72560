-- Ends that no replica was told of: whose turn it is to list closed workflows and how far it came, and what to ask about.

-- name: close_turn
-- writes turns to list
-- $1 the interval of turns, $2 the interval of lists that reach far back, $3 the replica's namespace. Takes the turn to
-- list closed workflows and activities, one replica at a time, and returns in which namespaces, of which kind, which of
-- them (all: an unwatched execution's item names a workflow ID) and since when. Empty if another
-- replica took the turn within $1, or if every open execution is watched and no list that reaches far back is due.
with turn as (
    update pgdispatch.close_sweep s
    set looked_at = clock_timestamp()
    where s.looked_at <= clock_timestamp() - $1::interval
    returning array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()) as alive
), open as (
    select coalesce(e.namespace, $3::text) as namespace, e.kind, min(e.started_at) as oldest,
           bool_or(u.unwatched) as unwatched, bool_or(u.unwatched and e.workflow_id is not null) as named
    from pgdispatch.workflow_executions e
    cross join turn t
    cross join lateral (select e.watcher is null or e.watcher <> all (t.alive) as unwatched) u
    where e.finished_at is null and e.status = 'RUNNING'
    group by 1, 2
)
select o.namespace, o.kind, wide.due as wide, o.named as "all",
       coalesce(l.swept_to, o.oldest, clock_timestamp()) - case when wide.due then interval '1 minute' else interval '5 seconds' end as since
from open o
left join pgdispatch.close_lists l on l.namespace = pgdispatch.lane(o.namespace, o.kind)
cross join lateral (select coalesce(l.wide_at <= clock_timestamp() - $2::interval, true) as due) wide
where wide.due or o.unwatched

-- name: close_done
-- writes turns to list
-- $1 namespace, $2 the newest close time that was listed (null: none), $3 whether the list reached far back, $4 kind. Turns
-- may overlap, so swept_to only rises.
insert into pgdispatch.close_lists as l (namespace, swept_to, wide_at)
values (pgdispatch.lane($1, $4), $2::timestamptz, case when $3::boolean then clock_timestamp() else '-infinity' end)
on conflict (namespace) do update
set swept_to = greatest(l.swept_to, excluded.swept_to), wide_at = greatest(l.wide_at, excluded.wide_at)

-- name: silent
-- writes when executions were asked about
-- $1 at most, $2 how long. Unwatched executions of which nothing was heard for that long: to be asked about.
with silent as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
      and greatest(e.started_at, e.asked_at) <= clock_timestamp() - $2::interval
      and (e.watcher is null
           or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp())))
    order by greatest(e.started_at, e.asked_at), e.id
    limit $1
    for update skip locked
)
update pgdispatch.workflow_executions e
set asked_at = clock_timestamp()
from silent s
where e.id = s.id
returning e.id::text, coalesce(e.workflow_id, '') as workflow_id, e.run_id, coalesce(e.namespace, '') as namespace, e.kind
