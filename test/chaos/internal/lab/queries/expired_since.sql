select count(*)::integer from chaos.changes c where c.at > $1 and c.old_status = 'CLAIMED' and c.new_token <> c.old_token
