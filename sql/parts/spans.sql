{{- /* Spans of transactions, first_xid to last_xid, that contain everything that the snapshot seen does not see. */ -}}
select pg_snapshot_xmax(seen) as first_xid,
       greatest(pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id_if_assigned()) as last_xid
union all
select x.xid, x.xid from pg_snapshot_xip(seen) as x (xid)
