-- Limits by key.

-- name: limit_list
-- reads
-- $1 workspace (null: any), $2 key (null: any), $3 whether only the limits that an item with $1 and $2 counts against, $4
-- only limits after this ID, $5 at most, $6 only of these workspaces, and none over all (null: all). active is how many
-- items with the key hold slots, counted up to one more than the limit, or up to 10001.
select l.id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, l.key, l.max_concurrent,
       l.max_starts, l.per, h.active, r.starts as starts_left
from pgdispatch.limits l
left join pgdispatch.workspaces w on w.id = l.workspace_id
cross join (select clock_timestamp() as at_time) c
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
where ($1::text is null or l.workspace_id = $1::text::uuid or $3::boolean and l.workspace_id is null)
  and ($2::text is null or l.key = $2::text) and l.id > $4::bigint and ($6::text[] is null or l.workspace_id = any ($6::text[]::uuid[]))
order by l.id limit $5::bigint

-- name: limit_set
-- writes a limit and the audit log
-- $1 workspace (null: over all workspaces), $2 key, $3 whether to set max_concurrent and $4 its value (null: no limit), $5
-- whether to set the rates, $6 max_starts and $7 per (null: no limit), $8 who. Adds the limit if there is none. Returns
-- {"column": [before, after]}.
with was as materialized (
    select l.* from pgdispatch.limits l where l.key = $2::text and l.workspace_id is not distinct from $1::text::uuid for update
), changed as (
    update pgdispatch.limits l
    set max_concurrent = case when $3::boolean then $4::integer else l.max_concurrent end,
        max_starts = case when $5::boolean then $6::integer[] else l.max_starts end,
        per = case when $5::boolean then $7::interval[] else l.per end
    from was
    where l.id = was.id
    returning pgdispatch.row_change(to_jsonb(was), to_jsonb(l)) as details
), made as (
    insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
    select $1::text::uuid, $2::text, case when $3::boolean then $4::integer end, case when $5::boolean then $6::integer[] end,
           case when $5::boolean then $7::interval[] end
    where not exists (select from was)
    returning pgdispatch.row_change('{"max_concurrent": null, "max_starts": null, "per": null}', to_jsonb(limits)) as details
), done as (
    select details from changed union all select details from made
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $8::text, 'limits set', coalesce('workspace ' || $1::text, 'limits'), d.details || jsonb_build_object('limit_key', $2::text)
    from done d where d.details <> '{}'
)
select d.details::text from done d

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
-- $1 how many items of each kind to look at, at most; $2 how many limits to return, at most. The last row has no key and
-- sums up the others: see limits_in_use().
select coalesce(l.id, 0) as id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, coalesce(l.key, '') as key,
       l.max_concurrent, l.max_starts, l.per, l.active, l.starts_left, l.waiting, coalesce(l.behind, 0) as behind
from pgdispatch.limits_in_use($1::bigint, $2::bigint) with ordinality
     as l (id, workspace_id, key, max_concurrent, max_starts, per, active, starts_left, waiting, behind, place)
left join pgdispatch.workspaces w on w.id = l.workspace_id
order by l.place

-- function: limits_in_use
-- The limits by use. Looks at the newest items that hold slots and at the items that arrived first and are due, at most
-- at_most each; the use of a limit is how many of them have its key. Returns the named most used ones: active is as in
-- limit_list.sql, waiting is how many of the items looked at wait. The last row, whose key is null, sums up those of the
-- other limits; its behind is how many of the items looked at wait for a limit above it that is full. The cost does not
-- grow with the queue or with the number of limits.
create or replace function pgdispatch.limits_in_use(at_most bigint, named bigint)
returns table (id bigint, workspace_id uuid, key text, max_concurrent integer, max_starts integer[], per interval[], active bigint,
    starts_left integer, waiting bigint, behind bigint)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes, whatever the tables looked like at their last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
    with given as materialized (
        select clock_timestamp() as at_time, exists (select from pgdispatch.limits) as any_limit
    ), held as materialized (
        select q.limit_key, q.workspace_id from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0 and (select g.any_limit from given g)
        order by q.lease_token desc
        limit at_most
    ), waits as materialized (
        {{ template "earliest" "(select case when g.any_limit then at_most else 0 end from given g)" }}
    ), key_queues as materialized (
        select n.limit_key, n.workspace_id, sum(n.held)::bigint as held, sum(n.waiting)::bigint as waiting
        from (select h.limit_key, h.workspace_id, 1 as held, 0 as waiting from held h
              union all
              select w.limit_key, w.workspace_id, 0, 1 from waits w where w.run_at <= (select g.at_time from given g)) n
        where n.limit_key is not null
        group by n.limit_key, n.workspace_id
    ), used as materialized (
        select l.*, n.held, n.waiting
        from key_queues n
        cross join lateral (select l.id from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id = n.workspace_id offset 0) l
        union all
        select l.*, n.held, n.waiting
        from (select n.limit_key, sum(n.held)::bigint as held, sum(n.waiting)::bigint as waiting from key_queues n group by n.limit_key) n
        cross join lateral (select l.id from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id is null offset 0) l
    ), shown as materialized (
        select u.*, row_number() over (order by u.held + u.waiting desc, u.id) as place from used u order by place limit named
    ), detailed as materialized (
        select l.id, l.workspace_id, l.key, l.max_concurrent, l.max_starts, l.per, h.active, r.starts, s.waiting, s.place
        from shown s
        cross join given g
        cross join lateral (select l.* from pgdispatch.limits l where l.id = s.id offset 0) l
        cross join lateral (
            select count(*) as active
            from (select from pgdispatch.workflow_execution_queue q
                  where q.limit_key = l.key and (l.workspace_id is null or q.workspace_id = l.workspace_id) and q.stage in ('HOLDS', 'DOUBT')
                  limit coalesce(l.max_concurrent, at_most) + 1) h
        ) h
        cross join lateral (
            select (case when l.per is not null then pgdispatch.starts_left(l.id, l.max_starts, l.per, g.at_time) end)[1]::integer as starts
        ) r
    ), blocking as materialized (
        select d.key, d.workspace_id from detailed d where d.active >= d.max_concurrent or d.starts <= 0
    )
    (select d.id, d.workspace_id, d.key, d.max_concurrent, d.max_starts, d.per, d.active, d.starts, d.waiting, null::bigint
     from detailed d order by d.place)
    union all
    select null, null, null, null, null, null,
           coalesce(sum(u.held), 0)::bigint, null, coalesce(sum(u.waiting), 0)::bigint,
           (select coalesce(sum(n.waiting), 0)::bigint from key_queues n
            where exists (select from blocking b where b.key = n.limit_key and (b.workspace_id is null or b.workspace_id = n.workspace_id)))
    from used u
    where u.id <> all (array(select s.id from shown s))
$$;
