-- Limits by key.

{{- /* How long the limit l has been full by the samples, or null: see note_limits. */ -}}
{{ define "full_for" -}}
(select clock_timestamp() - a.full_since from pgdispatch.limit_activity a
        where a.limit_id = l.id and a.minute > clock_timestamp() - interval '5 minutes' order by a.minute desc limit 1) as full_for
{{- end }}

-- name: limit_list
-- reads
-- $1 workspaces (null: any), $2 keys (null: any), $3 whether only the limits that an item with one of $1 and one of $2
-- counts against, $4 only limits after this ID, $5 at most, $6 only of these workspaces, and none over all (null: all), $7
-- only this ID (null: any), $8 how many of the items that wait for a limit are counted at most. active is how many items
-- with the key hold slots, counted up to one more than the limit, or up to 10001.
select l.id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, l.key, l.max_concurrent,
       l.max_starts, l.per, l.paused, h.active, r.starts as starts_left,
       n.items as waiting, n.items < $8::integer as waiting_exact, c.at_time - n.oldest_due as oldest_waiting,
       {{ template "full_for" }}
from pgdispatch.limits l
left join pgdispatch.workspaces w on w.id = l.workspace_id
cross join (select clock_timestamp() as at_time) c
cross join lateral pgdispatch.key_waiting(l.key, l.workspace_id, $8::integer) n
cross join lateral (
    select count(*) as active
    from (select from pgdispatch.workflow_execution_queue q
          where q.limit_key = l.key and (l.workspace_id is null or q.workspace_id = l.workspace_id) and q.stage in ('HOLDS', 'DOUBT')
          limit coalesce(l.max_concurrent, 10000) + 1) h
) h
left join lateral (
    select min(p.most - coalesce(n.started, 0))::integer as starts
    from unnest(l.max_starts, l.per) as p (most, per)
    left join lateral (
        select sum(s.items) as started from pgdispatch.limit_starts s
        where s.limit_id = l.id and s.per = p.per and s.until > c.at_time - p.per
    ) n on true
) r on true
where ($1::text[] is null or l.workspace_id = any ($1::text[]::uuid[]) or $3::boolean and l.workspace_id is null)
  and ($2::text[] is null or l.key = any ($2::text[])) and l.id > $4::bigint and ($6::text[] is null or l.workspace_id = any ($6::text[]::uuid[]))
  and ($7::bigint is null or l.id = $7::bigint)
order by l.id limit $5::bigint

-- name: limit_history
-- reads
-- $1 limits' IDs, $2 how far back, $3 only of these workspaces, and none over all (null: all). Minute by minute, of the
-- minutes in which they were used.
select a.limit_id, a.minute as at, a.active, a.waiting
from pgdispatch.limit_activity a
join pgdispatch.limits l on l.id = a.limit_id
where a.limit_id = any ($1::bigint[]) and a.minute > clock_timestamp() - $2::interval
  and ($3::text[] is null or l.workspace_id = any ($3::text[]::uuid[]))
order by a.limit_id, a.minute

-- name: limit_set
-- writes a limit and the audit log
-- $1 workspace (null: over all workspaces), $2 key, $3 {"column": value} of those to change, $4 the command, $5 who. Adds the
-- limit if there is none. Returns {"column": [before, after]}.
with was as materialized (
    select l.id, l as held from pgdispatch.limits l
    where l.key = $2::text and l.workspace_id is not distinct from $1::text::uuid for update
), changed as (
    update pgdispatch.limits l
    set max_concurrent = n.max_concurrent, max_starts = n.max_starts, per = n.per, paused = n.paused
    from was, jsonb_populate_record(was.held, $3::jsonb) n
    where l.id = was.id
    returning pgdispatch.row_change(to_jsonb(was.held), to_jsonb(l)) as details
), made as (
    insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per, paused)
    select $1::text::uuid, $2::text, n.max_concurrent, n.max_starts, n.per, coalesce(n.paused, false)
    from jsonb_populate_record(null::pgdispatch.limits, $3::jsonb) n
    where not exists (select from was)
    returning pgdispatch.row_change('{"max_concurrent": null, "max_starts": null, "per": null, "paused": false}', to_jsonb(limits)) as details
), done as (
    select details from changed union all select details from made
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $5::text, $4::text, coalesce('workspace ' || $1::text, 'limits'), d.details || jsonb_build_object('limit_key', $2::text)
    from done d where d.details <> '{}'
)
select d.details from done d

-- name: limit_remove
-- writes a limit and the audit log
-- $1 workspace (null: the limit over all workspaces), $2 key, $3 who. Returns whether there was one.
with gone as (
    delete from pgdispatch.limits l where l.key = $2::text and l.workspace_id is not distinct from $1::text::uuid
    returning l.id, to_jsonb(l) - 'id' - 'workspace_id' as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'limits remove', coalesce('workspace ' || $1::text, 'limits'),
           g.details - 'key' || jsonb_build_object('limit_key', $2::text)
    from gone g
)
select exists (select from gone)

-- name: limits_in_use
-- reads
-- $1 how many items that hold slots, and how many that wait, to look at, at most; $2 how many limits to return, at most.
-- The last row has no key and sums up the others: see limits_used().
select coalesce(l.id, 0) as id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, coalesce(l.key, '') as key,
       l.max_concurrent, l.max_starts, l.per, coalesce(l.paused, false) as paused, l.active, l.starts_left,
       l.items as waiting, l.items < 1000 as waiting_exact, clock_timestamp() - l.oldest_due as oldest_waiting, coalesce(l.behind, 0) as behind,
       {{ template "full_for" }}
from pgdispatch.limits_used($1::bigint, $2::bigint) with ordinality
     as l (id, workspace_id, key, max_concurrent, max_starts, per, paused, active, starts_left, items, oldest_due, behind, place)
left join pgdispatch.workspaces w on w.id = l.workspace_id
order by l.place

-- function: key_waiting
-- The due items that wait with a limit key, in a workspace or, if that is null, in any: how many, counted up to at_most,
-- and since when the longest-due one has been due. By the key's own index or, in a workspace, by that of the workspace,
-- one priority level at a time and at most at_most of them. In plpgsql, so that its plans are kept.
create or replace function pgdispatch.key_waiting(key text, workspace uuid, at_most integer, out items bigint, out oldest_due timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes that need no sorting, whatever the table looked like at its last ANALYZE.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    present constant timestamptz := clock_timestamp();
    levels integer[];
begin
    if workspace is null then
        select count(*), min(n.run_at) into items, oldest_due
        from (select q.run_at from pgdispatch.workflow_execution_queue q
              where q.limit_key = key and q.stage = 'WAITS' and q.created_at >= '-infinity' and q.run_at <= present
              order by q.run_at limit at_most) n;
        return;
    end if;
    with recursive level as (
        (select q.priority from pgdispatch.workflow_execution_queue q
         where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.priority desc limit 1)
        union all
        select lower.priority
        from level l
        cross join lateral (
            select q.priority from pgdispatch.workflow_execution_queue q
            where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority < l.priority
            order by q.priority desc limit 1
        ) lower
    )
    select array(select l.priority from level l limit at_most) into levels;
    select min(n.run_at) into oldest_due
    from unnest(levels) p (priority)
    cross join lateral (
        select q.run_at from pgdispatch.workflow_execution_queue q
        where q.workspace_id = workspace and q.priority = p.priority and q.limit_key = key and q.stage = 'WAITS' and q.run_at <= present
        order by q.run_at limit 1
    ) n;
    select count(*) into items
    from (select from unnest(levels) p (priority)
          cross join lateral (
              select from pgdispatch.workflow_execution_queue q
              where q.workspace_id = workspace and q.priority = p.priority and q.limit_key = key and q.stage = 'WAITS' and q.run_at <= present
              limit at_most
          ) n
          limit at_most) due;
end;
$$;

-- function: key_items
-- The items that wait with a limit key, the last due first, at most at_most.
create or replace function pgdispatch.key_items(key text, at_most bigint) returns setof bigint
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the key's own index, whatever the table looked like at its last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    select q.id from pgdispatch.workflow_execution_queue q
    where q.limit_key = key_items.key and q.stage = 'WAITS' and q.created_at >= '-infinity'
    order by q.run_at desc limit at_most
$$;

-- function: limits_in_use
-- limits_used for replicas of the version before it.
create or replace function pgdispatch.limits_in_use(at_most bigint, named bigint)
returns table (id bigint, workspace_id uuid, key text, max_concurrent integer, max_starts integer[], per interval[], active bigint,
    starts_left integer, waiting bigint, behind bigint)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select l.id, l.workspace_id, l.key, l.max_concurrent, l.max_starts, l.per, l.active, l.starts_left, l.items, l.behind
    from pgdispatch.limits_used(at_most, named) l
$$;

-- function: limits_used
-- The limits by use: those for which items wait first, then those with the most items. It finds them by the newest items
-- that hold slots, at most at_most, and by the first 1,000 keys by name for which items wait: of each that has a limit the
-- longest-due one and up to 99 others, at most at_most. active is as in limit_list, items and oldest_due are those of
-- key_waiting. The last row, whose key is null, sums up the items that were looked at of the other limits; its behind is
-- how many items wait for a limit above it that is full. The cost does not grow with the queue or with the number of limits.
create or replace function pgdispatch.limits_used(at_most bigint, named bigint)
returns table (id bigint, workspace_id uuid, key text, max_concurrent integer, max_starts integer[], per interval[], paused boolean,
    active bigint, starts_left integer, items bigint, oldest_due timestamptz, behind bigint)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes, whatever the tables looked like at their last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
    with recursive given as materialized (
        select clock_timestamp() as at_time, exists (select from pgdispatch.limits) as any_limit
    ), held as materialized (
        select q.limit_key, q.workspace_id from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0 and (select g.any_limit from given g)
        order by q.lease_token desc
        limit at_most
    ), waiting_key as (
        (select q.limit_key, q.workspace_id, q.run_at from pgdispatch.workflow_execution_queue q
         where q.limit_key > '' and q.stage = 'WAITS' and q.created_at >= '-infinity' and (select g.any_limit from given g)
         order by q.limit_key, q.run_at limit 1)
        union all
        select following.*
        from waiting_key k
        cross join lateral (
            select q.limit_key, q.workspace_id, q.run_at from pgdispatch.workflow_execution_queue q
            where q.limit_key > k.limit_key and q.stage = 'WAITS' and q.created_at >= '-infinity'
            order by q.limit_key, q.run_at limit 1
        ) following
    ), longest as materialized (
        select k.* from (select k.* from waiting_key k limit 1000) k, given g
        where k.run_at <= g.at_time and exists (select from pgdispatch.limits l where l.key = k.limit_key offset 0)
    ), waits as materialized (
        select l.limit_key, l.workspace_id from longest l
        union all
        (select q.limit_key, q.workspace_id
         from longest l
         cross join lateral (
             select q.limit_key, q.workspace_id from pgdispatch.workflow_execution_queue q
             where q.limit_key = l.limit_key and q.stage = 'WAITS' and q.created_at >= '-infinity' and q.run_at <= (select g.at_time from given g)
             order by q.run_at offset 1 limit 99
         ) q
         limit at_most)
    ), key_queues as materialized (
        select n.limit_key, n.workspace_id, sum(n.held)::bigint as held, sum(n.waiting)::bigint as waiting
        from (select h.*, 1 as held, 0 as waiting from held h union all select w.*, 0, 1 from waits w) n
        where n.limit_key is not null
        group by n.limit_key, n.workspace_id
    ), used as materialized (
        select l.*, n.held, n.waiting
        from key_queues n, lateral (select l.id from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id = n.workspace_id offset 0) l
        union all
        select l.*, n.held, n.waiting
        from (select n.limit_key, sum(n.held)::bigint as held, sum(n.waiting)::bigint as waiting from key_queues n group by n.limit_key) n
        cross join lateral (select l.id from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id is null offset 0) l
    ), shown as materialized (
        select u.*, row_number() over (order by (u.waiting > 0)::integer desc, u.held + u.waiting desc, u.id) as place
        from used u order by place limit named
    ), detailed as materialized (
        select l.*, h.active, r.left[1]::integer as starts, n.items, n.oldest_due, s.place
        from shown s cross join given g
        cross join lateral (select l.* from pgdispatch.limits l where l.id = s.id offset 0) l
        cross join lateral (
            select count(*) as active from (
                select from pgdispatch.workflow_execution_queue q
                where q.limit_key = l.key and (l.workspace_id is null or q.workspace_id = l.workspace_id) and q.stage in ('HOLDS', 'DOUBT')
                limit coalesce(l.max_concurrent, at_most) + 1) h
        ) h
        cross join lateral (
            select case when l.per is not null then pgdispatch.starts_left(l.id, l.max_starts, l.per, g.at_time) end as left) r
        cross join lateral pgdispatch.key_waiting(l.key, l.workspace_id, 1000) n
    ), blocking as materialized (
        select d.* from detailed d where d.paused or d.active >= d.max_concurrent or d.starts <= 0
    )
    (select d.id, d.workspace_id, d.key, d.max_concurrent, d.max_starts, d.per, d.paused, d.active, d.starts, d.items, d.oldest_due,
            null::bigint
     from detailed d order by d.place)
    union all
    select null, null, null, null, null, null, null, coalesce(sum(u.held), 0)::bigint, null, coalesce(sum(u.waiting), 0)::bigint, null,
           (select coalesce(sum(b.items), 0)::bigint from blocking b
            where b.workspace_id is null or not exists (select from blocking a where a.key = b.key and a.workspace_id is null))
    from used u
    where u.id <> all (array(select s.id from shown s))
$$;
