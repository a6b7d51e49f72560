-- $1 id, $2 status.
update bench.floor set status = $2, updated_at = now() where id = $1
