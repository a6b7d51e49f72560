{{- /* The first item of each key queue, after the key queue that the arguments after_... name. The argument is that of next_queue. */ -}}
with recursive key_queue as (
        (select after_workspace as workspace_id, after_priority as priority, after_key as limit_key, null::timestamptz as run_at, null::bigint as id
         where after_workspace is not null
         union all
         (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
          from pgdispatch.workflow_execution_queue q
          where after_workspace is null and q.stage = 'WAITS' and {{ template "parts/of_queues.sql" . }}
          order by q.workspace_id, q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1))
        union all
        select following.*
        from key_queue l
        cross join lateral (
            {{ template "parts/next_queue.sql" . }}
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, {{ if . }}0::bigint{{ else }}q.id{{ end }}
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and {{ template "parts/of_queues.sql" . }} and q.workspace_id > l.workspace_id
             order by q.workspace_id, q.priority desc, q.limit_key, q.run_at{{ if not . }}, q.id{{ end }} limit 1)
            limit 1
        ) following
    )
    select l.* from key_queue l where num_nonnulls(l.id) > 0
