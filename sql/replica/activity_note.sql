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
