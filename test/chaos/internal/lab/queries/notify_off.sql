-- As docs/enqueue.md tells applications that prepare transactions: one that has notified cannot be prepared.
set pgdispatch.notify = off
