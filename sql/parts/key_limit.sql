{{- /* For claim_key_limits: an entry's key, over all workspaces or, with an argument, in the entry's workspace. */ -}}
select row(case when l.max_concurrent is not null then l.max_concurrent - (
                       select count(*) from (
                           select from pgdispatch.workflow_execution_queue q
                           where q.limit_key = e.limit_key {{ if . }}and q.workspace_id = e.workspace_id {{ end }}and q.stage in ('HOLDS', 'DOUBT')
                           limit l.max_concurrent) n
                   )::integer end, r.rates[1], r.rates[2])::pgdispatch.claim_key as key, l.per is not null as rated
            from pgdispatch.limits l
            cross join lateral (
                select case when l.per is not null then pgdispatch.starts_left(l.id, l.max_starts, l.per, at_time) end as rates offset 0
            ) r
            where l.key = e.limit_key and l.workspace_id {{ if . }}= e.workspace_id{{ else }}is null{{ end }} offset 0
