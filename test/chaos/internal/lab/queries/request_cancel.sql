select pgdispatch.request_cancel($1::text::uuid, 'chaos')
