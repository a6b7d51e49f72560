{{- /* The columns of a lane_now, of a lane, l. */ -}}
l.ctid as at, l.workspace_id, l.active, l.slots, l.paused, l.starts_per_second,
pgdispatch.tokens_now(l.starts_per_second, l.tokens, l.tokens_at, start_time) as tokens,
l.ready_priority, l.waiting_from, l.last_served, l.at_capacity, l.next_due_at
