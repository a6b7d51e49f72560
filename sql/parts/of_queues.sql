{{- /* Which waiting items next_queue looks at: all, by their index, or with an argument those of that transaction. */ -}}
{{ if . }}q.enqueue_xid = {{ . }}{{ else }}q.run_at >= '-infinity'{{ end }}