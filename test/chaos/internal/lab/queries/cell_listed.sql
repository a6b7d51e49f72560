select looked_at > now() - interval '1 minute' from pgdispatch.close_sweep
