-- reads
-- $1 replica, $2 version, $3 workers, $4 lease, $5 how it is.
insert into pgdispatch.replicas (id, version, workers, expires_at, state)
values ($1, $2, $3, clock_timestamp() + $4::interval, $5::text::jsonb)
on conflict (id) do update set expires_at = excluded.expires_at, renewed_at = excluded.renewed_at, state = excluded.state
