update pgdispatch.settings set max_claims = $1
