{{- /* The first item of the line after l in its workspace: of the next limit key, of no key, or of the next priority. */ -}}
(select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority = l.priority
               and q.limit_key > l.limit_key
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority = l.priority
               and q.limit_key is null and l.limit_key is not null
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority < l.priority
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
