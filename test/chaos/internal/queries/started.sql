-- When an execution was handed over first; null: it has not been.
select min(c.at) from chaos.changes c where c.execution = $1::uuid and c.new_status = 'DISPATCHED'
