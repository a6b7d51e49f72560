-- reads
-- $1 workspaces, $2 how many items of a status are counted at most. Like queue_depth, of these workspaces only, and
-- without what cannot be told apart by workspace. Replicas and settings are those of all.
with given as materialized (
    select w.id from unnest($1::text[]::uuid[]) w (id)
), waiting as (
    select from given w
    cross join lateral (select from pgdispatch.workflow_execution_queue q
                        where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity' limit $2::bigint) n
    limit $2::bigint
), holders as materialized (
    select n.status from given w
    cross join lateral (select q.status from pgdispatch.workflow_execution_queue q
                        where q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT')
                        order by q.lease_token desc limit $2::bigint) n
    limit $2::bigint
), unanswered as (
    select coalesce(sum(u.items), 0)::bigint as items, min(u.since) as since
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
), failing as (
    select count(*) as executions
    from pgdispatch.stalled t
    where t.kind = 'EXECUTION' and exists (
        select from pgdispatch.workflow_executions e
        where e.id = case t.kind when 'EXECUTION' then t.name::uuid end and e.workspace_id in (select w.id from given w))
)
select (select count(*) from waiting) as pending, u.items as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       (select count(*) from holders h where h.status = 'CLAIMED') as claimed,
       (select count(*) from holders h where h.status = 'DISPATCHED') as dispatched,
       (select count(*) from dead) as dead_letters, (select count(*) < $2::bigint from failures) as dead_letters_exact,
       (select clock_timestamp() - min(n.oldest_due)
        from pgdispatch.waiting_among($1::text[]::uuid[], $2::integer) n) as oldest_waiting,
       (select count(*) from pgdispatch.replicas r where r.expires_at > clock_timestamp()) as replicas,
       s.max_claims, s.paused, 0 as idle_queues, 0 as without_poller, f.executions as failing,
       0::double precision as notify_queue, p.items as parked, p.first as parked_first, l.at as paused_since,
       '' as paused_by, 0 as signals, null::interval as oldest_signal, 0 as signals_given_up
from unanswered u
cross join parked p
cross join failing f
cross join pgdispatch.settings s
left join lateral pgdispatch.paused_by(s.paused, s.max_claims) l on s.paused or s.max_claims = 0
