-- writes replicas
-- $1 replica, $2 version, $3 workers, $4 lease, $5 the namespace of definitions that name none, $6 its state.
insert into pgdispatch.replicas (id, version, workers, expires_at, namespace, state)
values ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6::text::jsonb)
on conflict (id) do update set expires_at = excluded.expires_at, renewed_at = excluded.renewed_at, state = excluded.state
