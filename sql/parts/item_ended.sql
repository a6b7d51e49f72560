{{- /* The end of the workflow, for its item. The argument names the row or function with outcome and reason. */ -}}
set status = case {{ . }}.outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
    last_error = case {{ . }}.outcome when 'COMPLETED' then null
        else left(coalesce(nullif({{ . }}.reason, ''), 'workflow ' || lower({{ . }}.outcome)), 2000) end,
    finished_at = clock_timestamp()
