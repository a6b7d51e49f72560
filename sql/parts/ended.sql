{{- /* The IDs of transactions that have ended, in spans between those that run: above after_xid and below before_xid. An
       index scan over all IDs would read every row of a great transaction, only to find that it is not visible. */ -}}
unnest('0'::xid8 || array(select pg_snapshot_xip(pg_current_snapshot())),
               array(select pg_snapshot_xip(pg_current_snapshot())) || '18446744073709551615'::xid8) as s (after_xid, before_xid)
