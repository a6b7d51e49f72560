-- When the first item was moved to a status by its holder or by a claim, by a transaction that began after a time; null: none.
select min(c.at)
from chaos.changes c
where c.at > $2 and c.began > $2 and c.new_status = $1 and c.old_status is distinct from c.new_status
