-- Nothing has waited too long for its turn, and W holds nothing back.
update pgdispatch.settings set priority_aging = '1 day', max_claims = 1000
