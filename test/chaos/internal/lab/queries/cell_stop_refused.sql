select exists (select from pgdispatch.stop_requests s where s.execution_id = $1::text::uuid and s.state = 'OPEN' and s.error is not null)
