{{- /* A row with the columns of a lane_now, as one. What is given is the row's name. */ -}}
row({{ . }}.at, {{ . }}.workspace_id, {{ . }}.active, {{ . }}.slots, {{ . }}.paused, {{ . }}.starts_per_second, {{ . }}.tokens,
    {{ . }}.ready_priority, {{ . }}.waiting_from, {{ . }}.last_served, {{ . }}.at_capacity, {{ . }}.next_due_at)::pgdispatch.lane_now
