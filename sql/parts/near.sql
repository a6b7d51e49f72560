{{- /* For claim_rows_around: the due rows among which it looks for an entry's grant. The argument picks the limit key. */ -}}
select q.id, q.run_at, q.workflow_definition_id
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
                      and {{ . }}
                      and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id) and q.run_at <= at_time and q.id <> all (parked)
                    order by q.limit_key, q.run_at, q.id limit grants[e.ordinality] + 100
