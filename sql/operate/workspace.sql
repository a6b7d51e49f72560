-- Workspaces, as operators see and change them.

{{- /* For view_workspaces: unanswered starts and failures by workspace, of the newest so many. */ -}}
{{ define "troubles" -}}
unanswered as materialized (
    select u.* from pgdispatch.unanswered({{ . }}::bigint) u
), failed as materialized (
    select n.workspace_id, count(*) as items
    from (select q.workspace_id from pgdispatch.workflow_execution_queue q
          where q.stage = 'DEAD' and q.finished_at > now() - interval '1 day'
          order by q.finished_at desc limit {{ . }}::bigint) n
    group by n.workspace_id
{{ end }}
{{- /* For view_workspaces: the rows of a page. The argument is how many items of a status to count. */ -}}
{{ define "workspace_rows" -}}
select w.id::text, w.name, w.plan, l.slots as "limit", w.paused, n.due as waiting, n.due_exact as waiting_exact,
       n.scheduled, n.scheduled_exact, h.claimed, h.running,
       clock_timestamp() - n.oldest_due as oldest_waiting, coalesce(f.items, 0) as failures, p.rank,
       coalesce(u.items, 0) as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       coalesce(u.uncertain, 0) as uncertain, clock_timestamp() - u.uncertain_since as oldest_uncertain,
       pgdispatch.burst_limit(l.slots, l.burst) as burst
from page p
cross join lateral (select w.* from pgdispatch.workspaces w where w.id = p.id offset 0) w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst
) l
left join failed f on f.workspace_id = p.id
left join unanswered u on u.workspace_id = p.id
cross join lateral pgdispatch.waiting_counts(array[p.id], {{ . }}::integer) n
cross join lateral pgdispatch.holders_of(p.id, {{ . }}::integer) h
{{ end }}

-- name: workspace_create
-- writes a workspace and the audit log
-- $1 name, $2 {"column": value} of the others, $3 who.
with made as (
    insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows, max_starts_per_second, paused, max_burst_workflows)
    select $1::text, coalesce(n.plan, 'FREE'), n.max_concurrent_workflows, n.max_starts_per_second, coalesce(n.paused, false), n.max_burst_workflows
    from jsonb_populate_record(null::pgdispatch.workspaces, $2::jsonb) n
    returning id, name, plan, max_concurrent_workflows, max_starts_per_second, paused, max_burst_workflows
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'workspaces create', 'workspace ' || m.id, jsonb_strip_nulls(to_jsonb(m) - 'id') from made m
)
select m.id::text, m.plan from made m

-- name: workspace_set
-- writes a workspace and the audit log
-- $1 workspace, $2 who, $3 the command, $4 {"column": value} of those to change, $5 only if it is one of these (null: any).
-- Returns {"column": [before, after]}.
with was as materialized (
    select w.id, w as held from pgdispatch.workspaces w
    where w.id = $1::text::uuid and ($5::text[] is null or w.id = any ($5::text[]::uuid[])) for update
), changed as (
    update pgdispatch.workspaces w
    set plan = n.plan, paused = n.paused, max_concurrent_workflows = n.max_concurrent_workflows,
        max_starts_per_second = n.max_starts_per_second, max_burst_workflows = n.max_burst_workflows
    from was, jsonb_populate_record(was.held, $4::jsonb) n
    where w.id = was.id
    returning w.id, pgdispatch.row_change(to_jsonb(was.held), to_jsonb(w)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, $3::text, 'workspace ' || c.id, c.details from changed c where c.details <> '{}'
)
select c.details from changed c

-- name: workspace_find
-- reads
-- $1 ID or name (null: none), $2 prefix of the name (null: none), $3 at most, $4 only of these (null: all). By the
-- indexes of IDs and names, or each of $4.
select w.id::text, w.name
from (
    select i.id from pgdispatch.workspaces i
    where i.id = case when $1::text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $1::text::uuid end
    union
    (select n.id from pgdispatch.workspaces n
     where $4::text[] is null and n.name collate "C" = $1::text collate "C" order by n.name collate "C", n.id limit $3::bigint)
    union
    (select p.id from pgdispatch.workspaces p
     where $4::text[] is null and p.name collate "C" >= $2::text collate "C" and p.name collate "C" < ($2::text || chr(1114111)) collate "C"
     order by p.name collate "C", p.id limit $3::bigint)
    union
    select g.id from unnest($4::text[]::uuid[]) g (id)
    cross join lateral (select s.name from pgdispatch.workspaces s where s.id = g.id offset 0) s -- per row
    where s.name = $1::text or starts_with(s.name, $2::text)
) found
join pgdispatch.workspaces w on w.id = found.id
where ($4::text[] is null or w.id = any ($4::text[]::uuid[]))
order by w.name, w.id
limit $3::bigint

-- name: workspace_named
-- reads
-- $1 IDs, $2 names, $3 at most, $4 only of these workspaces (null: all). Those that have one of them, by name.
select w.id::text, w.name
from pgdispatch.workspaces w
where (w.id = any ($1::text[]::uuid[]) or w.name collate "C" = any ($2::text[])) and ($4::text[] is null or w.id = any ($4::text[]::uuid[]))
order by w.name collate "C", w.id
limit $3::bigint

-- name: workspace_search
-- reads
-- $1 the ID, the beginning of a name (as typed, in lower or upper case, or with capitals), or any part of one of the
-- first $2 names, case-insensitive; $3 at most, those that begin with it first. By the indexes of IDs and names.
select f.id::text
from (
    select w.id, w.name from pgdispatch.workspaces w
    where w.id = case when $1::text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $1::text::uuid end
    union
    select n.id, n.name
    from unnest(array[$1::text, lower($1::text), upper($1::text), initcap($1::text), upper(left($1::text, 1)) || lower(substr($1::text, 2))]) b (text)
    cross join lateral (
        select w.id, w.name from pgdispatch.workspaces w
        where w.name collate "C" >= b.text collate "C" and w.name collate "C" < (b.text || chr(1114111)) collate "C"
        order by w.name collate "C", w.id limit $3::bigint
    ) n
    union
    select n.id, n.name
    from (select w.id, w.name from pgdispatch.workspaces w order by w.name collate "C", w.id limit $2::bigint) n
    where position(lower($1::text) in lower(n.name)) > 0
) f
order by position(lower($1::text) in lower(f.name)) > 1, f.name collate "C", f.id
limit $3::bigint

-- name: names_near
-- reads
-- $1 a name of a workspace, definition or limit key, as $2 says, $3 workspaces (null: all), $4 at most. Returns the name
-- itself if something has it, then those that differ by case only, those that contain it, and others about as long. A
-- workspace's name is returned alone, by its index.
with known as materialized (
    select $1::text as name from pgdispatch.workspaces w
    where $2::text = 'workspace' and w.name collate "C" = $1::text and ($3::text[] is null or w.id = any ($3::text[]::uuid[]))
    limit 1
)
select k.name from known k
union all
(select n.name
 from (
     select 'workspace', w.name, w.id from pgdispatch.workspaces w
     union all
     select 'definition', d.name, d.workspace_id from pgdispatch.workflow_definitions d
     union all
     select 'key', d.limit_key, d.workspace_id from pgdispatch.workflow_definitions d where d.limit_key is not null
     union all
     select 'key', l.key, l.workspace_id from pgdispatch.limits l
 ) n (kind, name, workspace_id)
 where not exists (select from known)
   and n.kind = $2::text and ($3::text[] is null or n.workspace_id = any ($3::text[]::uuid[]))
   and (abs(length(n.name) - length($1::text)) <= 3 or position(lower($1::text) in lower(n.name)) > 0)
 group by n.name
 order by n.name <> $1::text, lower(n.name) <> lower($1::text), position(lower($1::text) in lower(n.name)) = 0, n.name
 limit $4::bigint)

-- name: workspace_list
-- reads
-- $1 IDs (null: all), $2 part of the name, case-insensitive (null: any), $3 only those after this ID (null: from the
-- first), $4 at most. Ordered by name.
with page as materialized (
    select w.id
    from pgdispatch.workspaces w
    where ($1::text[] is null or w.id = any ($1::text[]::uuid[]))
      and ($2::text is null or position(lower($2::text) in lower(w.name)) > 0)
      and ($3::text is null or (w.name, w.id) > (select a.name, a.id from pgdispatch.workspaces a where a.id = $3::text::uuid))
    order by w.name, w.id
    limit $4::bigint
)
select w.id::text, w.name, w.plan, w.max_concurrent_workflows, s.max_concurrent_workflows as "limit",
       w.max_burst_workflows, pgdispatch.burst_limit(s.max_concurrent_workflows, coalesce(w.max_burst_workflows, t.max_burst_workflows)) as burst,
       w.max_starts_per_second, w.paused,
       s.waiting, true as waiting_exact, s.scheduled, true as scheduled_exact, s.claimed, s.running,
       greatest(s.unanswered - coalesce(u.uncertain, 0), 0) as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       coalesce(u.uncertain, 0) as uncertain, clock_timestamp() - u.uncertain_since as oldest_uncertain,
       clock_timestamp() - s.oldest_waiting_since as oldest_waiting, w.created_at
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
join pgdispatch.workspace_statistics s on s.workspace_id = w.id
left join pgdispatch.unanswered(10000) u on u.workspace_id = w.id
where w.id = any (array(select p.id from page p)) and s.workspace_id = any (array(select p.id from page p))
order by w.name, w.id

-- name: workspace_statistics
-- reads
-- $1 at most. Workspaces with the most items first.
select w.workspace_id::text, w.name, w.plan, w.paused, w.max_concurrent_workflows,
       w.waiting, w.scheduled, w.claimed, w.running, w.unanswered, clock_timestamp() - w.oldest_waiting_since as oldest_waiting
from pgdispatch.workspace_statistics w
order by w.waiting + w.scheduled + w.unanswered + w.claimed + w.running desc, w.name
limit $1

-- name: workspace_activity_read
-- reads
-- $1 workspace, $2 how far back, $3 only if it is one of these (null: any). Five minutes by five minutes, earliest first.
-- known is false for the time before anything was recorded of any workspace. One index step for each row, however many
-- workspaces and items there are.
with uncounted as materialized (
    select sum(coalesce(w.completed, m.completed)) as completed, sum(coalesce(w.failed, m.failed)) as failed, sum(m.cancelled) as cancelled
    from ({{ template "uncounted" }}) m
    cross join lateral unnest(m.workspaces, m.completed_of, m.failed_of) as w (id, completed, failed)
    where w.id = $1::text::uuid and (m.completed_of is not null or cardinality(m.workspaces) = 1)
)
select b.at, b.at >= least(f.at, case when u.completed is not null then present.at end) as known,
       coalesce(a.started, 0) as started, coalesce(a.completed, 0) + coalesce(u.completed, 0) as completed,
       coalesce(a.failed, 0) + coalesce(u.failed, 0) as failed, coalesce(a.cancelled, 0) + coalesce(u.cancelled, 0) as cancelled,
       make_interval(secs => coalesce(a.waited, 0) / 1000.0) as waited,
       make_interval(secs => coalesce(a.longest, 0) / 1000.0) as longest
from (select date_bin('5 minutes', clock_timestamp(), 'epoch') as at) present
cross join (select coalesce((select a.at from pgdispatch.workspace_activity a order by a.at limit 1), 'infinity') as at) f
cross join lateral generate_series(present.at - $2::interval + interval '5 minutes', present.at, interval '5 minutes') b (at)
left join lateral (
    select a.* from pgdispatch.workspace_activity a where a.at = b.at and a.workspace_id = $1::text::uuid offset 0 -- per row
) a on true
left join uncounted u on b.at = present.at
where ($3::text[] is null or $1::text::uuid = any ($3::text[]::uuid[]))
order by b.at

-- name: view_workspace
-- reads
-- $1 workspace, $4 only if it is one of these (null: any). Counts at most $2 of its items of each status, and its failures
-- among the newest $3 of the last day, of all workspaces.
select w.id::text, w.name, w.plan, w.max_concurrent_workflows, l.slots as "limit",
       w.max_burst_workflows, pgdispatch.burst_limit(l.slots, l.burst) as burst,
       w.max_starts_per_second, w.paused, n.due as waiting, n.due_exact as waiting_exact, n.scheduled, n.scheduled_exact,
       h.claimed, h.running,
       coalesce(u.items, 0) as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       coalesce(u.uncertain, 0) as uncertain, clock_timestamp() - u.uncertain_since as oldest_uncertain,
       clock_timestamp() - n.oldest_due as oldest_waiting, w.created_at,
       (select count(*)
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q
              where q.stage = 'DEAD' and q.finished_at > now() - interval '1 day'
              order by q.finished_at desc limit $3::bigint) f
        where f.workspace_id = w.id) as failures
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst
) l
cross join lateral pgdispatch.waiting_counts(array[w.id], $2::integer) n
cross join lateral pgdispatch.holders_of(w.id, $2::integer) h
left join pgdispatch.unanswered($3::bigint) u on u.workspace_id = w.id
where w.id = $1::text::uuid and ($4::text[] is null or w.id = any ($4::text[]::uuid[]))

-- name: view_workspaces
-- reads
-- $1 order: running, oldest or failures (those with any first, then the others by name), or name; $2, $3 and $4 rank,
-- name and ID of the last one shown (null: from the first); $5 at most. Counts at most $6 items of a status per
-- workspace, and failures among the newest $7 of the last day, of all workspaces.
with {{ template "troubles" "$7" }}), held as materialized ( -- at most the first 100,000 slot holders
    select q.workspace_id from pgdispatch.workflow_execution_queue q
    where $1::text = 'running' and q.stage in ('HOLDS', 'DOUBT')
      and q.workspace_id >= '00000000-0000-0000-0000-000000000000' limit 100000
), ranked (id, rank) as (
    select l.workspace_id, date_part('epoch', l.waiting_from) from pgdispatch.longest_waiting(2000) l
    where $1::text = 'oldest'
    union all
    select h.workspace_id, -count(*)::double precision from held h group by h.workspace_id
    union all
    select f.workspace_id, -f.items::double precision from failed f where $1::text = 'failures'
), ahead as materialized (
    select r.id, r.rank from ranked r
    where ($2::double precision is null or (r.rank, r.id) > ($2::double precision, $4::text::uuid))
    order by r.rank, r.id limit $5::bigint
), page as materialized (
    (select a.id, a.rank from ahead a)
    union all
    (select w.id, 'infinity' from pgdispatch.workspaces w
     where (select count(*) from ahead) < $5::bigint -- otherwise they are not needed
       and (w.name collate "C", w.id) > (
           case when $2::double precision = 'infinity' then $3::text else '' end,
           case when $2::double precision = 'infinity' then $4::text else '00000000-0000-0000-0000-000000000000' end::uuid)
       and w.id not in (select r.id from ranked r)
     order by w.name collate "C", w.id limit $5::bigint)
)
{{ template "workspace_rows" "$6" }}
order by p.rank, case when p.rank = 'infinity' then w.name end collate "C", p.id limit $5::bigint

-- name: view_workspaces_of
-- reads
-- $1 workspaces; of them $2 those with this part of the name, case-insensitive, or this ID (null: any); $3 order:
-- running, oldest or failures (those with any first, then the others by name), or name; $4, $5 and $6 rank, name and ID
-- of the last one shown (null: from the first); $7 at most. Counts at most $8 items of a status per workspace, and
-- failures among the newest $9 of the last day, of all workspaces.
with {{ template "troubles" "$9" }}), oldest as materialized (
    select n.* from pgdispatch.waiting_among(case when $3::text = 'oldest' then $1::text[]::uuid[] end, $9::integer) n
), held as materialized ( -- at most the first 100,000 slot holders
    select n.workspace_id, count(*) as items
    from (select q.workspace_id from unnest(case when $3::text = 'running' then $1::text[]::uuid[] end) o (id)
          cross join lateral (select q.workspace_id from pgdispatch.workflow_execution_queue q
                              where q.workspace_id = o.id and q.stage in ('HOLDS', 'DOUBT') limit $8::bigint) q
          limit 100000) n
    group by n.workspace_id
), ranked as materialized (
    select w.id, w.name collate "C" as name,
           coalesce(case $3::text
                        when 'oldest' then date_part('epoch', least(o.oldest_due, u.since, u.uncertain_since))
                        when 'running' then -h.items::double precision
                        when 'failures' then -f.items::double precision
                    end, 'infinity') as rank
    from unnest($1::text[]::uuid[]) g (id)
    cross join lateral (select w.id, w.name from pgdispatch.workspaces w where w.id = g.id offset 0) w -- per row
    left join unanswered u on u.workspace_id = w.id
    left join failed f on f.workspace_id = w.id
    left join oldest o on o.workspace_id = w.id
    left join held h on h.workspace_id = w.id
    where ($2::text is null or position(lower($2::text) in lower(w.name)) > 0 or w.id::text = lower($2::text))
), page as materialized (
    select r.id, r.rank from ranked r
    where $4::double precision is null or (r.rank, case when r.rank = 'infinity' then r.name else '' end, r.id)
        > ($4::double precision, case when $4::double precision = 'infinity' then $5::text else '' end, $6::text::uuid)
    order by r.rank, case when r.rank = 'infinity' then r.name end, r.id limit $7::bigint
)
{{ template "workspace_rows" "$8" }}
order by p.rank, case when p.rank = 'infinity' then w.name end collate "C", p.id
