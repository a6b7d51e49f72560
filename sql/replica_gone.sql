-- reads
-- $1 replica: its watches are free for others at once. Long-expired rows of others go too.
delete from pgdispatch.replicas r
where r.id = $1 or r.expires_at < clock_timestamp() - interval '1 day'
