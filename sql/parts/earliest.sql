{{- /* The waiting items that arrived first, as many as the argument says. Transactions that run are left out: an index
       scan would read every row of a great one, only to find that it is not visible. pg_snapshot_xip returns them in
       order, so s are the spans between them. */ -}}
select q.limit_key, q.workspace_id, q.run_at
        from unnest('0'::xid8 || array(select pg_snapshot_xip(pg_current_snapshot())),
                    array(select pg_snapshot_xip(pg_current_snapshot())) || '18446744073709551615'::xid8) as s (after_xid, before_xid)
        cross join lateral (
            select q.limit_key, q.workspace_id, q.run_at from pgdispatch.workflow_execution_queue q
            where q.stage = 'WAITS' and q.enqueue_xid > s.after_xid and q.enqueue_xid < s.before_xid
            order by q.enqueue_xid
        ) q
        limit {{ . -}}
