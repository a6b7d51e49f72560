{{- /* The first item of the key queue after l in its workspace: of the next limit key, of no key, or of the next priority. With
       an argument, among the items of that transaction: without an ID, which its index does not have. */ -}}
(select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint as id{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "parts/of_queues.sql" . }} and q.priority = l.priority
               and q.limit_key > l.limit_key
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "parts/of_queues.sql" . }} and q.priority = l.priority
               and q.limit_key is null and l.limit_key is not null
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and {{ template "parts/of_queues.sql" . }} and q.priority < l.priority
             order by q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
