{{- /* For claim_heads: the due rows among which it looks for an entry's grant. The argument picks the limit key. */ -}}
select q.id, q.run_at, q.workflow_definition_id
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = p.workspace_id and q.priority = p.priority and {{ . }} and q.stage = 'WAITS'
                      and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id) and q.run_at <= at_time and q.id <> all (parked)
                    order by q.limit_key, q.run_at, q.id limit p.grants + 100
