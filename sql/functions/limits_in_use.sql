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
        {{ template "parts/earliest.sql" "(select case when g.any_limit then at_most else 0 end from given g)" }}
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
