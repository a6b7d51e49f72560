-- $1 W, $2 whether it is seen as soon as it is committed. A commit has its time before it waits for the disk and the standby, and is
-- seen after that: a claim in between goes by what was before, and the audit would not know.
update pgdispatch.settings set max_claims = $1
where set_config('synchronous_commit', case when $2::boolean then 'off' else current_setting('synchronous_commit') end, true) is not null
