{{- /* For bring_back: which rows to change. The argument is their table and condition. Locked rows are left: whoever holds
them writes the new time, or they are looked at again once it has ended. */ -}}
ctid = any (array(
            select a.ctid from pgdispatch.{{ . }}
            limit at_most for update skip locked))
