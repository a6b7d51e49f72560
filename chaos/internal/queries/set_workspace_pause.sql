-- $1 workspace, $2 whether it is paused, $3 as in set_cap.
update pgdispatch.workspaces set paused = $2::boolean
where id = $1::uuid
  and set_config('synchronous_commit', case when $3::boolean then 'off' else current_setting('synchronous_commit') end, true) is not null
