-- The rest of the overview.

{{- /* The marks of ends that no sweep has counted yet, at most 10,000: see trim_marks. They count in the present. */ -}}
{{ define "uncounted" -}}
select m.*
    from pgdispatch.mark_trim t
    cross join lateral (select pg_snapshot_xmax(t.counted) as first_xid, pg_snapshot_xmax(pg_current_snapshot()) as last_xid
                        union all
                        select x.xid, x.xid from pg_snapshot_xip(t.counted) as x (xid)) span
    cross join lateral (select m.* from pgdispatch.marks m where m.xid between span.first_xid and span.last_xid limit 10000) m
    where m.completed + m.failed + m.cancelled > 0 limit 10000
{{- end }}

-- name: activity_read
-- reads
-- $1 how far back. Minute by minute, earliest first, with the current time. A minute without a sweep in which nothing
-- happened has no row.
with uncounted as materialized (
    select date_trunc('minute', clock_timestamp()) as minute, sum(m.completed) as completed, sum(m.failed) as failed, sum(m.cancelled) as cancelled
    from ({{ template "uncounted" }}) m
    having count(*) > 0
)
select coalesce(a.minute, u.minute) as at, coalesce(a.started, 0) as started,
       coalesce(a.completed, 0) + coalesce(u.completed, 0) as completed, coalesce(a.failed, 0) + coalesce(u.failed, 0) as failed,
       coalesce(a.cancelled, 0) + coalesce(u.cancelled, 0) as cancelled, a.waiting, a.claimed, a.running,
       coalesce(a.waits, '{}') as waits, coalesce(a.startable_waits, '{}') as startable_waits, clock_timestamp() as now
from (select a.* from pgdispatch.activity a where a.minute > date_trunc('minute', clock_timestamp()) - $1::interval) a
full join uncounted u on u.minute = a.minute
order by 1

-- name: replicas
-- reads
-- Live replicas: how many items each has leased, how many executions it watches, and its state at its last heartbeat.
select r.id, r.version, r.workers, clock_timestamp() - r.started_at as up,
       coalesce(l.leased, 0) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       clock_timestamp() - r.renewed_at as heard, r.state
from pgdispatch.replicas r
left join (
    select q.claimed_by, count(*) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.claimed_by
) l on l.claimed_by = r.id
where r.expires_at > clock_timestamp()
order by r.started_at, r.id

-- name: view_errors
-- reads
-- $1 how many of the newest failures are searched, $2 part of the text, case-insensitive, $3 at most, $4 workspaces (null:
-- all). The longest part of each kind of error that stands in all errors of the kind. The most frequent first.
with failures as materialized (
    select q.last_error, q.workspace_id from pgdispatch.workflow_execution_queue q
    where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select p.text
from (select pgdispatch.error_kind(f.last_error) as kind, count(*) as items from failures f
      where ($4::text[] is null or f.workspace_id = any ($4::text[]::uuid[]))
      group by pgdispatch.error_kind(f.last_error)) k
cross join lateral (
    select btrim(p.text) as text from regexp_split_to_table(k.kind, '…|[[:cntrl:]]') p (text) order by length(btrim(p.text)) desc limit 1
) p
where length(p.text) > 2 and position(lower($2::text) in lower(p.text)) > 0
group by p.text
order by sum(k.items) desc, p.text
limit $3::bigint

-- function: error_kind
-- The text of an error without its IDs and numbers, to group errors of one kind.
create or replace function pgdispatch.error_kind(error text) returns text
language sql immutable
as $$
    select regexp_replace(regexp_replace(left(error, 300),
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '…', 'g'), '[0-9]+', '…', 'g')
$$;
