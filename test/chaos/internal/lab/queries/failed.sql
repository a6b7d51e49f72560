-- When an execution failed. Null if it has not.
select min(c.at) from chaos.changes c where c.execution = $1::uuid and c.new_status = 'FAILED'
