-- writes activity
-- $1 how many items were started since the last note, $2 histogram of how long they had waited: see the table.
insert into pgdispatch.activity as a (minute, started, waits)
values (date_trunc('minute', clock_timestamp()), $1::bigint, $2::bigint[])
on conflict (minute) do update
set started = a.started + excluded.started,
    waits = array(
        select coalesce(w.was, 0) + coalesce(w.more, 0)
        from unnest(a.waits, excluded.waits) with ordinality as w (was, more, n)
        order by w.n)
