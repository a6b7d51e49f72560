update pgdispatch.settings set max_claims = 1000, retention = interval '1 minute'
