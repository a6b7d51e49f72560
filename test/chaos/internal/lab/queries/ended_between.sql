select count(*)::integer
from chaos.changes c
where c.at between $1 and $2 and c.new_status in ('COMPLETED', 'FAILED') and c.old_status = 'DISPATCHED'
