select pgdispatch.cancel($1::uuid)
