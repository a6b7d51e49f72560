{{- /* For claim_heads: the rows of each entry's grant, and the one after them. The argument picks the limit key. */ -}}
unnest(workspaces, priorities, grants, due, ids, keys) with ordinality
            as p (workspace_id, priority, grants, due, id, key, place)
            cross join lateral (
                select q.ctid as at, p.place::integer as place, q.run_at, q.id,
                       row_number() over (order by q.limit_key, q.run_at, q.id) <= p.grants and q.run_at <= at_time as gets
                from pgdispatch.workflow_execution_queue q
                where q.workspace_id = p.workspace_id and q.priority = p.priority and {{ . }} and q.stage = 'WAITS'
                  and q.run_at >= p.due and (q.run_at, q.id) >= (p.due, p.id) and q.id <> all (parked)
                order by q.limit_key, q.run_at, q.id limit p.grants + 1
            ) h
