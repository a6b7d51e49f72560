{{- /* For view_workspaces: unanswered starts and failures by workspace, of the newest so many. */ -}}
unanswered as materialized (
    select u.* from pgdispatch.unanswered({{ . }}::bigint) u
), failed as materialized (
    select n.workspace_id, count(*) as items
    from (select q.workspace_id from pgdispatch.workflow_execution_queue q
          where q.stage = 'DEAD' and q.finished_at > now() - interval '1 day'
          order by q.finished_at desc limit {{ . }}::bigint) n
    group by n.workspace_id
