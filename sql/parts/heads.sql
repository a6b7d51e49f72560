{{- /* For claim_rows: the rows of each entry's grant, and the one after them. The argument picks the limit key. */ -}}
unnest(p.entries) with ordinality e
            cross join lateral (
                select q.ctid as at, e.ordinality as place, q.run_at, q.id, q.run_at <= at_time
                       and row_number() over (order by q.limit_key, q.run_at, q.id) <= grants[e.ordinality] as gets
                from pgdispatch.workflow_execution_queue q
                where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
                  and {{ . }}
                  and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id) and q.id <> all (parked)
                order by q.limit_key, q.run_at, q.id limit grants[e.ordinality] + 1
            ) h
