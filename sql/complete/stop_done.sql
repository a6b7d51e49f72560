-- writes stop requests
-- $1 execution, $2 how, $3 Temporal's error (null: it accepted). A request that became TERMINATE meanwhile stays open.
update pgdispatch.stop_requests s
set state = case when $3::text is null then 'SENT' else s.state end,
    settled_at = case when $3::text is null then clock_timestamp() end,
    error = $3::text
where s.execution_id = $1::text::uuid and s.how = $2::text and s.state = 'OPEN'
