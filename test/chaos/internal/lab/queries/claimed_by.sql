-- When the replica with this process ID first claimed since a time. Null if it has not.
select min(c.at) from chaos.changes c
where c.at > $2 and c.new_status = 'CLAIMED' and c.old_status = 'PENDING' and c.new_owner like '%\_' || $1::text || '\_%'
