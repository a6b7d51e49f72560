select exists (select from pgdispatch.signals s where s.execution_id = $1::text::uuid and s.state = 'DELIVERED')
