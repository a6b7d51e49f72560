-- How many leases taken since a time have expired. An earlier fault may have left older ones.
select count(*)::integer from chaos.changes c
where c.at > $1 and c.old_status = 'CLAIMED' and c.new_token <> c.old_token
  and exists (select from chaos.changes t where t.item = c.item and t.new_status = 'CLAIMED' and t.new_token = c.old_token and t.at > $1)
