select count(*) from pgdispatch.claim('bench', $1, '30s', 'default', '{}', '{}', 'bench')
