{{- /* For claim_rows: the positions of rows h of entries, in JSON. */ -}}
json_agg(json_build_object('entry', h.place, 'run_at', h.run_at, 'id', h.id))
