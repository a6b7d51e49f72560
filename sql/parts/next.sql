{{- /* For claim_next: the first row of an entry that is not among the heads. The argument picks the limit key. */ -}}
select p.place::integer as place, q.run_at, q.id
        from pgdispatch.workflow_execution_queue q
        where q.workspace_id = p.workspace_id and q.priority = p.priority and {{ . }} and q.stage = 'WAITS'
          and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id)
          and q.ctid <> all (coalesce(heads, '{}')) and q.id <> all (parked)
        order by q.limit_key, q.run_at, q.id limit 1
