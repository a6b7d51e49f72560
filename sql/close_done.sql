-- reads
-- $1 the newest close time that was listed (null: none was), $2 whether the look back was wide. Turns may overlap: it only rises.
update pgdispatch.close_sweep s
set swept_to = greatest(s.swept_to, $1::timestamptz),
    wide_at = case when $2::boolean then clock_timestamp() else s.wide_at end
