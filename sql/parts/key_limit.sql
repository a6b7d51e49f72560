{{- /* For claim_keys: the limit of an entry's key, over all workspaces or, with an argument, in the entry's workspace. */ -}}
select case when l.max_concurrent is not null then l.max_concurrent - (
                   select count(*) from (
                       select from pgdispatch.workflow_execution_queue q
                       where q.limit_key = e.key {{ if . }}and q.workspace_id = e.workspace_id {{ end }}and q.stage in ('HOLDS', 'DOUBT')
                       limit l.max_concurrent) n
               )::integer end as room,
               case when l.per is not null then pgdispatch.starts_left(l.id, l.max_starts, l.per, at_time) end as rates
        from pgdispatch.limits l
        where l.key = e.key and l.workspace_id {{ if . }}= e.workspace_id{{ else }}is null{{ end }} offset 0
