-- When an execution was first dispatched. Null if it has not been.
select min(c.at) from chaos.changes c where c.execution = $1::uuid and c.new_status = 'DISPATCHED'
