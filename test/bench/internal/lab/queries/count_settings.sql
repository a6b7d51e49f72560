-- Nothing has waited too long for its turn, and W does not limit anything.
update pgdispatch.settings set priority_aging = '1 day', max_claims = 1000
