-- Items, as operators see and change them.

-- The items of the JSON array $1. Durations are from now.
{{ define "lines" -}}
rows from (jsonb_to_recordset($1::jsonb) as (workspace_id uuid, definition_id uuid, params jsonb, priority integer,
        run_at timestamptz, run_in interval, start_before timestamptz, start_in interval, idempotency_key text, limit_key text, traceparent text,
        start_options jsonb, workflow_id text, key text, on_conflict text, quiet interval, at_most interval)) with ordinality l
{{- end }}
{{ define "run_at" }}coalesce(l.run_at, now() + l.run_in){{ end }}
{{ define "start_before" }}coalesce(l.start_before, now() + l.start_in){{ end }}

-- name: items_enqueue
-- writes new items and the audit log
-- $1 a JSON array with an item each, $2 who. Inserts PENDING items, except those whose idempotency key an item of the
-- workspace has already, and returns both.
with made as (
    insert into pgdispatch.workflow_execution_queue
        (workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, limit_key, start_options, start_before,
         workflow_id)
    select l.workspace_id, l.definition_id, l.params, coalesce(l.priority, 0),
           coalesce({{ template "run_at" }}, now()),
           l.idempotency_key, l.traceparent, l.limit_key, l.start_options, {{ template "start_before" }},
           l.workflow_id
    from {{ template "lines" }}
    order by l.ordinality
    on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
    returning id, execution_id, workspace_id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'enqueue', 'items',
           jsonb_build_object('items', jsonb_agg(m.id order by m.id), 'workspaces', jsonb_agg(distinct m.workspace_id))
    from made m
    having count(*) > 0
)
select m.id, m.execution_id::text, 'inserted' as action from made m
union all
select q.id, q.execution_id::text, 'existing'
from {{ template "lines" }}
cross join lateral (
    select q.id, q.execution_id from pgdispatch.workflow_execution_queue q
    where q.workspace_id = l.workspace_id and q.idempotency_key = l.idempotency_key limit 1 -- per row
) q

-- name: items_enqueue_keyed
-- writes new items or waiting ones, and the audit log
-- $1 a JSON array with an item each, in the order in which their keys are taken, $2 who. Null leaves a waiting item's
-- value as it is.
with made as materialized (
    select e.id, e.execution_id, e.action, l.workspace_id, l.ordinality
    from {{ template "lines" }}
    cross join lateral pgdispatch.enqueue(workspace_id => l.workspace_id, workflow_definition_id => l.definition_id, params => l.params,
        priority => l.priority, run_at => {{ template "run_at" }}, key => l.key, on_conflict => l.on_conflict,
        quiet => l.quiet, at_most => l.at_most, traceparent => l.traceparent,
        limit_key => l.limit_key, start_options => l.start_options, workflow_id => l.workflow_id,
        start_before => {{ template "start_before" }}) e
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'enqueue', 'items', jsonb_build_object('items', jsonb_agg(m.id order by m.ordinality),
           'workspaces', jsonb_agg(distinct m.workspace_id), 'answer', string_agg(distinct m.action, ', ' order by m.action))
    from made m
    where m.action <> 'skipped'
    having count(*) > 0
)
select m.id, m.execution_id::text, m.action from made m where m.id > 0 order by m.ordinality

-- name: item_find
-- reads
-- $1 states; $2 workspace and $3 definition: ID or name; $4 part of the error, case-insensitive; enqueued since $5 or,
-- if that is null, since $6 ago; until $7 or $8, likewise; $9 only items before this ID; $10 at most; $11 only those
-- that wait after a failure; $12 only those that keep their slot while they wait, $13 only those that Temporal does not
-- find. Null filters nothing. Newest first.
select q.id
from pgdispatch.workflow_execution_queue q
where ($1::text[] is null or q.status = any ($1::text[]))
  and ($2::text is null or q.workspace_id::text = lower($2::text)
       or q.workspace_id = any (array(select w.id from pgdispatch.workspaces w where w.name = $2::text)))
  and ($3::text is null or q.workflow_definition_id::text = lower($3::text)
       or q.workflow_definition_id = any (array(select d.id from pgdispatch.workflow_definitions d where d.name = $3::text)))
  and ($4::text is null or position(lower($4::text) in lower(q.last_error)) > 0)
  and q.created_at >= coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
  and q.created_at <= coalesce($7::timestamptz, clock_timestamp() - $8::interval, 'infinity')
  and ($9::bigint is null or q.id < $9::bigint)
  and (not $11::boolean or (q.status = 'PENDING' and q.failure_count > 0 and q.run_at > clock_timestamp()))
  and (not $12::boolean or q.status = 'PENDING' and q.outcome_unknown)
  and (not $13::boolean or exists (select from pgdispatch.missing_executions m where m.execution_id = q.execution_id))
order by q.id desc
limit $10::bigint

-- name: item_read
-- reads
-- $1 item IDs, $2 execution IDs, $3 whether to include params and results, which may be large, $4 workspaces (null: all).
-- Newest first.
select q.id, coalesce(q.execution_id::text, '') as execution_id, q.status,
       q.workspace_id::text, coalesce(w.name, '') as workspace, q.workflow_definition_id::text,
       coalesce(d.name, '') as workflow_definition,
       q.priority, q.run_at, greatest(q.run_at - clock_timestamp(), '0') as due_in, q.start_before,
       case when $3::boolean then q.params end as params, coalesce(q.idempotency_key, '') as idempotency_key,
       coalesce(q.traceparent, '') as traceparent, coalesce(q.limit_key, '') as limit_key,
       coalesce(q.workflow_id, 'execution-' || q.execution_id, '') as workflow_id, coalesce(k.key, '') as enqueue_key,
       q.attempt_count, q.failure_count, d.max_attempts, q.lost_lease_count, q.outcome_unknown,
       q.status = 'PENDING' and q.outcome_unknown and {{ template "uncertain" }} as uncertain,
       coalesce(t.tries, 0) as tries, t.since as failing_since, coalesce(t.given_up_by, '') as given_up_by,
       coalesce(o.since, t.missing_since) as missing_since,
       coalesce('parked, retried at ' || p.try_at::timestamptz(0) || ': ' || p.error, q.last_error, '') as last_error,
       q.created_at, clock_timestamp() - q.created_at as age,
       coalesce(q.claimed_by, '') as claimed_by, q.claimed_at, q.lease_expires_at,
       coalesce(q.lease_expires_at < clock_timestamp(), false) as lease_is_over,
       q.dispatched_at, q.finished_at, q.replay_of,
       coalesce(e.status, '') as execution_status, coalesce(e.run_id, '') as run_id, coalesce(e.namespace, '') as namespace,
       coalesce(e.kind, d.kind, 'workflow') as kind,
       coalesce(e.watcher, '') as watcher,
       coalesce(e.workflow_definition_version_id::text, '') as version_id, v.version, e.created_at as prepared_at, e.started_at,
       e.finished_at as execution_finished_at, coalesce(e.error, '') as execution_error,
       case when $3::boolean then e.result end as result, coalesce(e.result_note, '') as result_note,
       coalesce(s.how, '') as stop, coalesce(s.state, '') as stop_state, s.requested_at as stop_requested_at,
       coalesce(s.requested_by, '') as stop_requested_by, coalesce(s.reason, '') as stop_reason, coalesce(s.error, '') as stop_error,
       case
           when q.stage is distinct from 'DEAD' then ''
           when m.item_id is null or r.status = 'CANCELLED' then 'OPEN'
           else m.mark
       end as state,
       coalesce(m.mark, '') as mark, m.marked_at, coalesce(m.marked_by, '') as marked_by, m.replay_id,
       coalesce(r.execution_id::text, '') as replay_execution_id, coalesce(r.status, '') as replay_status
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workspaces w on w.id = q.workspace_id
left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
left join pgdispatch.workflow_executions e on e.id = q.execution_id
left join pgdispatch.workflow_definition_versions v on v.id = e.workflow_definition_version_id
left join pgdispatch.stop_requests s on s.execution_id = q.execution_id
left join pgdispatch.dead_letter_marks m on m.item_id = q.id
left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
left join pgdispatch.enqueue_keys k on k.item_id = q.id
left join pgdispatch.missing_executions o on o.execution_id = q.execution_id and q.status = 'DISPATCHED'
left join pgdispatch.start_tries t on t.item_id = q.id and q.status in ('PENDING', 'CLAIMED')
left join pgdispatch.parked_items p on p.item_id = q.id and p.attempts = q.attempt_count and q.status in ('PENDING', 'CLAIMED')
where (q.id = any ($1::bigint[]) or q.execution_id = any ($2::text[]::uuid[])) and ($4::text[] is null or q.workspace_id = any ($4::text[]::uuid[]))
order by q.id desc

-- name: item_named
-- reads
-- $1 workflow IDs, $2 workspaces (null: all). Items that name one of them and have not ended, the newest first.
select q.id from pgdispatch.workflow_execution_queue q
where q.workflow_id = any ($1::text[]) and q.stage in ('WAITS', 'HOLDS', 'DOUBT')
  and ($2::text[] is null or q.workspace_id = any ($2::text[]::uuid[]))
order by q.id + 0 desc limit 100 -- not by the index of IDs

-- name: item_nodes
-- reads
-- $1 item, $2 at most, $3 workspaces (null: all). The node IDs of the version that it was prepared with or, before that, of
-- its definition's newest version.
select n.node ->> 'id' as id
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workflow_executions e on e.id = q.execution_id
cross join lateral (
    select v.graph from pgdispatch.workflow_definition_versions v
    where v.id = e.workflow_definition_version_id
       or e.id is null and v.workflow_definition_id = q.workflow_definition_id
    order by v.version desc limit 1
) v
cross join lateral jsonb_array_elements(v.graph -> 'nodes') with ordinality n (node, place)
where q.id = $1::bigint and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
order by n.place limit $2::bigint

-- name: item_ahead
-- reads
-- $1 item, $2 at most, $3 workspaces (null: all). How many due items of its workspace are claimed before it: those of a
-- higher priority, and those of its own priority and limit key, or without one like it, that are due earlier. Looks at up
-- to $2 of each.
with item as materialized (
    select q.id, q.workspace_id, q.priority, q.limit_key, q.run_at from pgdispatch.workflow_execution_queue q
    where q.id = $1::bigint and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
)
select count(*)
from (
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority > i.priority
         order by q.priority desc, q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
    union all
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where i.limit_key is null and q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity'
           and q.priority = i.priority and q.limit_key is null and (q.run_at, q.id) < (i.run_at, i.id)
         order by q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
    union all
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity'
           and q.priority = i.priority and q.limit_key = i.limit_key and (q.run_at, q.id) < (i.run_at, i.id)
         order by q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
) n
where n.run_at <= clock_timestamp()

-- name: items_open
-- reads
-- $1 item IDs. Returns those that have not ended.
select q.id from pgdispatch.workflow_execution_queue q where q.id = any ($1::bigint[]) and q.finished_at is null

-- name: listen_ended
-- reads
-- Notifications of ends: see announce_ends().
listen pgdispatch_ended

-- name: item_cancel
-- PENDING -> CANCELLED
-- $1 items, $2 who, $3 workspaces (null: all). Withdraws those that wait, and returns them.
with named as materialized (
    select q.id, q.execution_id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
    order by q.id
), cancelled as materialized (
    select n.id from named n cross join lateral pgdispatch.cancel(n.execution_id) as c (done) where c.done
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items cancel', 'items', jsonb_build_object('items', jsonb_agg(c.id order by c.id))
    from cancelled c
    having count(*) > 0
)
select c.id from cancelled c

-- name: item_retry
-- PENDING -> PENDING
-- $1 items, $2 who, $3 workspaces (null: all). Makes those that are PENDING due now, and returns them.
with locked as materialized (
    select q.id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and q.status = 'PENDING' and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
    order by q.id
    for update
), retried as (
    update pgdispatch.workflow_execution_queue q
    set run_at = least(q.run_at, clock_timestamp())
    from locked l
    where q.id = l.id and q.status = 'PENDING'
    returning q.id
), unparked as (
    delete from pgdispatch.parked_items p where p.item_id = any (array(select r.id from retried r))
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items retry', 'items', jsonb_build_object('items', jsonb_agg(r.id order by r.id))
    from retried r
    having count(*) > 0
)
select r.id from retried r

-- name: item_give_up
-- PENDING -> PENDING
-- $1 items, $2 who, $3 workspaces (null: all). Makes those that keep their slot while they wait for another try due now, to
-- be looked up instead of tried: see claim.Item.GivenUpBy. Returns them.
with locked as materialized (
    select q.id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and q.status = 'PENDING' and q.stage = 'DOUBT'
      and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
    order by q.id
    for update
), due as (
    update pgdispatch.workflow_execution_queue q
    set run_at = least(q.run_at, clock_timestamp())
    from locked l
    where q.id = l.id
    returning q.id
), given_up as (
    insert into pgdispatch.start_tries as t (item_id, given_up_by)
    select d.id, $2::text from due d
    on conflict (item_id) do update set given_up_by = excluded.given_up_by
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items give-up', 'items', jsonb_build_object('items', jsonb_agg(d.id order by d.id))
    from due d
    having count(*) > 0
)
select d.id from due d

-- name: execution_give_up
-- writes what is missing in temporal, and the audit log
-- $1 items, $2 who, $3 workspaces (null: all). Says of those that Temporal does not find that they are gone: the next
-- question about each ends it. Returns them.
with missing as materialized (
    select q.id, m.execution_id from pgdispatch.missing_executions m
    join pgdispatch.workflow_execution_queue q on q.execution_id = m.execution_id
    where q.id = any ($1::bigint[]) and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
    order by q.id
), given_up as (
    update pgdispatch.missing_executions m set given_up_by = $2::text
    where m.execution_id = any (array(select i.execution_id from missing i))
    returning m.execution_id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'executions give-up', 'items', jsonb_build_object('items', jsonb_agg(i.id order by i.id))
    from missing i
    having count(*) > 0
)
select i.id from missing i join given_up g on g.execution_id = i.execution_id

-- name: item_purge
-- writes items that have ended, their executions and history, by deleting them, and the audit log
-- $1 items, $2 who. Deletes those that have ended, and returns them. The others hold slots, or may yet.
with ended as materialized (
    select q.id, q.execution_id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and q.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    order by q.id
    for update
), purged as materialized (
    delete from pgdispatch.workflow_execution_queue q
    where q.id = any (array(select e.id from ended e))
    returning q.id
), gone as (
    delete from pgdispatch.workflow_executions x
    where x.id = any (array(select e.execution_id from ended e)) and x.finished_at is not null
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items purge', 'items', jsonb_build_object('items', jsonb_agg(p.id order by p.id))
    from purged p
    having count(*) > 0
)
select p.id from purged p

-- name: view_items
-- reads
-- $1 status, UNANSWERED, UNCERTAIN, MISSING, or SCHEDULED, whose items PENDING leaves out; $2 workspaces, $3 definition's ID or name, $4 part
-- of the error, case-insensitive (null: any); enqueued since $5 or, if null, since $6 ago; until $7 or $8, likewise; $9
-- only items before this ID; $10 at most. Looks at up to $11 items of each index, and returns how many it looked at and
-- their lowest ID. $12 priority, $13 limit key, $14 the path of a field of params whose value as text is $15 (null: any).
-- Newest first.
with looked as materialized (
    (select q.id from pgdispatch.workflow_execution_queue q
     where coalesce($1::text, 'CANCELLED') in ('COMPLETED', 'CANCELLED') and q.id < $9::bigint order by q.id desc limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text = 'FAILED' and q.stage = 'DEAD' order by q.finished_at desc limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where q.stage in ('HOLDS', 'DOUBT') and q.status = $1::text
         and ($1::text = 'CLAIMED' or $1::text = 'DISPATCHED' and $2::text[] is null)
         and q.lease_token >= case $1::text when 'CLAIMED' then (select t.leased_from from pgdispatch.mark_trim t) else 0 end
     order by q.lease_token desc limit $11::bigint)
    union all
    (select q.id from (select m.execution_id from pgdispatch.missing_executions m where $1::text = 'MISSING' limit $11::bigint) m
     cross join lateral (select q.id from pgdispatch.workflow_execution_queue q where q.execution_id = m.execution_id offset 0) q)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text in ('PENDING', 'UNANSWERED', 'UNCERTAIN') and q.stage = 'DOUBT' limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text in ('PENDING', 'SCHEDULED') and $2::text[] is null and $13::text is null
       and q.stage = 'WAITS' and q.enqueue_xid >= '0' order by q.enqueue_xid desc limit $11::bigint)
    union all
    (select k.id from pgdispatch.key_items($13::text, $11::bigint) k (id)
     where $1::text in ('PENDING', 'SCHEDULED') and $2::text[] is null and $13::text is not null)
    union all
    (select o.id from unnest($2::text[]::uuid[]) as w (id)
     cross join lateral (
         (select q.id from pgdispatch.workflow_execution_queue q
          where $1::text in ('PENDING', 'SCHEDULED') and q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
          limit $11::bigint)
         union all
         (select q.id from pgdispatch.workflow_execution_queue q
          where $1::text = 'DISPATCHED' and q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT') and q.status = 'DISPATCHED' limit $11::bigint)
     ) o limit $11::bigint)
), found as (
    select q.id
    from (select l.id from looked l where l.id < $9::bigint order by l.id desc) l -- so that it ends with the last one found
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = l.id offset 0) q -- per row
    where case $1::text when 'UNANSWERED' then q.stage = 'DOUBT' and not {{ template "uncertain" }}
                        when 'UNCERTAIN' then q.stage = 'DOUBT' and {{ template "uncertain" }}
                        when 'MISSING' then q.status = 'DISPATCHED'
                        when 'SCHEDULED' then q.stage = 'WAITS' and q.run_at > clock_timestamp()
                        when 'PENDING' then q.status = 'PENDING' and (q.stage = 'DOUBT' or q.run_at <= clock_timestamp())
                        else $1::text is null or q.status = $1::text end
      and ($2::text[] is null or q.workspace_id = any ($2::text[]::uuid[]))
      and ($3::text is null or q.workflow_definition_id::text = lower($3::text)
           or (select d.name from pgdispatch.workflow_definitions d where d.id = q.workflow_definition_id) = $3::text)
      and ($4::text is null or position(lower($4::text) in lower(q.last_error)) > 0)
      and q.created_at between coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
          and coalesce($7::timestamptz, clock_timestamp() - $8::interval, 'infinity')
      and ($12::integer is null or q.priority = $12::integer) and ($13::text is null or q.limit_key = $13::text)
      and ($14::text[] is null or q.params #>> $14::text[] = $15::text)
    order by l.id desc limit $10::bigint
)
select f.id, n.looked, n.lowest
from (select count(*) as looked, min(l.id) as lowest from looked l) n
left join found f on true
order by f.id desc

-- name: view_ended
-- reads
-- $1 workspaces (null: all). Ended items by status. exact: there are no others. about: of all workspaces, the number by
-- the statistics of the last ANALYZE, or null. Failed items are counted among the newest $2, or $3 for some
-- workspaces, which no index tells apart. No index has the others: they are counted if there are at most $2 items.
with size as materialized (
    select c.reltuples as items, c.reltuples <= $2::bigint as small from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue'::regclass
), failures as materialized (
    (select null::uuid as workspace_id from pgdispatch.workflow_execution_queue q -- from the index alone
     where $1::text[] is null and q.stage = 'DEAD' order by q.finished_at desc limit $2::bigint)
    union all
    (select q.workspace_id from pgdispatch.workflow_execution_queue q
     where $1::text[] is not null and q.stage = 'DEAD' order by q.finished_at desc limit $3::bigint)
), newest as (
    select q.workspace_id, q.status from pgdispatch.workflow_execution_queue q
    where (select s.small from size s) order by q.id desc limit $2::bigint
), others as materialized (
    select n.status, count(*) as looked, count(*) filter (where $1::text[] is null or n.workspace_id = any ($1::text[]::uuid[])) as items
    from newest n group by n.status
), common as materialized (
    select v.status, v.share from pg_stats p, unnest(p.most_common_vals::text::text[], p.most_common_freqs) v (status, share)
    where $1::text[] is null and p.schemaname = 'pgdispatch' and p.tablename = 'workflow_execution_queue' and p.attname = 'status'
), counted as (
    select 'FAILED' as status, count(*) filter (where $1::text[] is null or f.workspace_id = any ($1::text[]::uuid[])) as items,
           count(*) < case when $1::text[] is null then $2::bigint else $3::bigint end as exact
    from failures f
    union all
    select v.status, coalesce(o.items, 0), (select s.small from size s) and (select coalesce(sum(a.looked), 0) from others a) < $2::bigint
    from (values ('COMPLETED'), ('CANCELLED')) v (status) left join others o on o.status = v.status
)
select c.status, c.items, c.exact, round(s.items * m.share)::bigint as about
from counted c cross join size s left join common m on m.status = c.status
