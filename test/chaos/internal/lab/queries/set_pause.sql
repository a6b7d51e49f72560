update pgdispatch.settings set paused = $1
