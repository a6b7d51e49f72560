{{- /* The end of the workflow, for its execution e. The argument names the row or function with outcome, reason and result. */ -}}
set status = {{ . }}.outcome,
    error = case {{ . }}.outcome when 'COMPLETED' then null else left({{ . }}.reason, 2000) end,
    result = coalesce({{ . }}.result, e.result),
    result_note = case {{ . }}.outcome when 'COMPLETED' then left({{ . }}.reason, 2000) end,
    finished_at = clock_timestamp(),
    watcher = null
