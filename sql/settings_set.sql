-- reads
-- $1 max_claims, $2 paused; null leaves one as it is.
update pgdispatch.settings s
set max_claims = coalesce($1::integer, s.max_claims), paused = coalesce($2::boolean, s.paused)
returning s.max_claims, s.paused, s.retention, s.dead_letter_retention
