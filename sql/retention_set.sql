-- reads
-- $1 whether to set retention and $2 what to, $3 and $4 likewise for dead letters. Null is off: kept for ever.
update pgdispatch.settings s
set retention = case when $1::boolean then $2::interval else s.retention end,
    dead_letter_retention = case when $3::boolean then $4::interval else s.dead_letter_retention end
returning s.max_claims, s.paused, s.retention, s.dead_letter_retention
