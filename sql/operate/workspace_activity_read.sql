-- reads
-- $1 workspace, $2 how far back. Five minutes by five minutes, earliest first. known is false for the time before
-- anything was recorded of any workspace. One index step for each row, however many workspaces and items there are.
select b.at, b.at >= f.at as known, coalesce(a.started, 0) as started, coalesce(a.completed, 0) as completed, coalesce(a.failed, 0) as failed,
       coalesce(a.cancelled, 0) as cancelled, make_interval(secs => coalesce(a.waited, 0) / 1000.0) as waited,
       make_interval(secs => coalesce(a.longest, 0) / 1000.0) as longest
from (select date_bin('5 minutes', clock_timestamp(), 'epoch') as at) present
cross join (select coalesce((select a.at from pgdispatch.workspace_activity a order by a.at limit 1), 'infinity') as at) f
cross join lateral generate_series(present.at - $2::interval + interval '5 minutes', present.at, interval '5 minutes') b (at)
left join lateral (
    select a.* from pgdispatch.workspace_activity a where a.at = b.at and a.workspace_id = $1::text::uuid offset 0 -- per row
) a on true
order by b.at
