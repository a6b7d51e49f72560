{{- /* For claim_rows: the first row of an entry that is not among the heads. The argument picks the limit key. */ -}}
select e.ordinality as place, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
               and {{ . }}
               and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id)
               and q.ctid <> all (coalesce(heads, '{}')) and q.id <> all (parked)
             order by q.limit_key, q.run_at, q.id limit 1
