-- writes replicas
-- $1 replica. Frees its watches at once. Also deletes rows of others that expired more than a day ago.
delete from pgdispatch.replicas r
where r.id = $1 or r.expires_at < clock_timestamp() - interval '1 day'
