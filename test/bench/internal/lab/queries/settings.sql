-- $1 W, $2 paused.
update pgdispatch.settings set max_claims = $1, paused = $2
