{{- /* For look and arrivals: the transactions that the snapshot g.sees sees and g.seen does not, in spans without those
       that run in g.sees. An index scan would read every row of a great transaction, only to find that it is not visible. */ -}}
select (lag(e.xid, 1, pg_snapshot_xmax(g.seen)::text::bigint - 1) over (order by e.xid) + 1)::text::xid8 as first_xid,
           (e.xid - 1)::text::xid8 as last_xid
    from given g
    cross join lateral (
        select r.xid::text::bigint as xid from pg_snapshot_xip(g.sees) as r (xid) where r.xid >= pg_snapshot_xmax(g.seen)
        union all
        select pg_snapshot_xmax(g.sees)::text::bigint
    ) e
    union all
    select x.xid, x.xid from given g, pg_snapshot_xip(g.seen) as x (xid) where pg_visible_in_snapshot(x.xid, g.sees)
