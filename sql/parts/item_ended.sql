{{- /* What the end of its workflow does to an item. What is given is the name of the row or function that has outcome and reason. */ -}}
set status = case {{ . }}.outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
    last_error = case {{ . }}.outcome when 'COMPLETED' then null
        else left(coalesce(nullif({{ . }}.reason, ''), 'workflow ' || lower({{ . }}.outcome)), 2000) end,
    finished_at = clock_timestamp()
