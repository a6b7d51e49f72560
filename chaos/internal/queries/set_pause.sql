-- $1 whether all is paused, $2 as in set_cap.
update pgdispatch.settings set paused = $1
where set_config('synchronous_commit', case when $2::boolean then 'off' else current_setting('synchronous_commit') end, true) is not null
