-- What replicas have started, for the plots and the waits of operators.

-- name: activity_note
-- writes activity
-- $1 how many items were started since the last note; histograms of how long they had been $2 due and $3 startable: see
-- the table.
insert into pgdispatch.activity as a (minute, started, waits, startable_waits)
values (date_trunc('minute', clock_timestamp()), $1::bigint, $2::bigint[], $3::bigint[])
on conflict (minute) do update
set started = a.started + excluded.started,
    waits = array(
        select coalesce(w.was, 0) + coalesce(w.more, 0)
        from unnest(a.waits, excluded.waits) with ordinality as w (was, more, n)
        order by w.n),
    startable_waits = array(
        select coalesce(w.was, 0) + coalesce(w.more, 0)
        from unnest(a.startable_waits, excluded.startable_waits) with ordinality as w (was, more, n)
        order by w.n)

-- name: workspace_activity_note
-- writes workspace_activity
-- The starts since the last note. For each workspace: $1 its ID, $2 how many, and how long they had been due, in ms: $3
-- the sum, $4 the longest. In the order of IDs, so that no two that write the same rows wait for each other.
insert into pgdispatch.workspace_activity as a (at, workspace_id, started, waited, longest)
select date_bin('5 minutes', statement_timestamp(), 'epoch'), s.id, s.started, s.waited, s.longest
from unnest($1::text[]::uuid[], $2::integer[], $3::bigint[], $4::bigint[]) as s (id, started, waited, longest)
order by s.id
on conflict (at, workspace_id) do update
set started = a.started + excluded.started, waited = a.waited + excluded.waited, longest = greatest(a.longest, excluded.longest)
