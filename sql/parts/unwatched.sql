{{- /* For adopt: whether no live replica watches the execution e. The live replicas are an array: a join would not be
       evaluated again if another adopter was faster, and both would take. */ -}}
e.finished_at is null and e.status = 'RUNNING'
      and (e.watcher is null
           or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))
           or (e.watcher = $1 and e.id <> all ($3::uuid[])))
