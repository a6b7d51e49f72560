-- reads
-- $1 replica, $2 version, $3 workers, $4 lease, $5 the namespace of definitions that name none.
insert into pgdispatch.replicas (id, version, workers, expires_at, namespace)
values ($1, $2, $3, clock_timestamp() + $4::interval, $5)
on conflict (id) do update set expires_at = excluded.expires_at, renewed_at = excluded.renewed_at
