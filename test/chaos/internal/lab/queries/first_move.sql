-- When a transaction that began after a time first moved an item to a status, by a claim or by its holder. Null if
-- none did.
select min(c.at)
from chaos.changes c
where c.at > $2 and c.began > $2 and c.new_status = $1 and c.old_status is distinct from c.new_status
