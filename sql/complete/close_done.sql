-- writes turns to list
-- $1 namespace, $2 the newest close time that was listed (null: none), $3 whether the list reached far back. Turns may
-- overlap, so swept_to only rises.
insert into pgdispatch.close_lists as l (namespace, swept_to, wide_at)
values ($1, $2::timestamptz, case when $3::boolean then clock_timestamp() else '-infinity' end)
on conflict (namespace) do update
set swept_to = greatest(l.swept_to, excluded.swept_to), wide_at = greatest(l.wide_at, excluded.wide_at)
