package simpg

import (
	"slices"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// What the simulated Postgres forgets in a crash or a failover.

// crash loses all open transactions, and the last asynchronous commits or, in a failover, the last commits of any kind.
// Lost transaction IDs and tokens are reused.
func (p *tables) crash(failover bool) {
	for len(p.open) > 0 {
		p.close(p.open[0], false)
	}
	kept := p.flushed + p.r.IntN(len(p.done)-p.flushed+1)
	if failover {
		most := []int{len(p.done), min(len(p.done), 3)}[p.r.IntN(2)]
		kept = len(p.done) - p.r.IntN(most+1)
	}
	next := p.next - int64(p.r.IntN(3))
	for n := len(p.done) - 1; n >= kept; n-- {
		if p.forget(p.done[n], n < p.flushed); failover {
			next = min(next, p.done[n].xid-1)
		}
	}
	p.done, p.flushed, p.epoch = nil, 0, schedule.Epoch{}
	var token, xid int64
	for _, r := range p.rows {
		token, xid = max(token, r.token), max(xid, r.xid)
	}
	for _, m := range p.marks {
		xid = max(xid, m.xid)
	}
	if p.last = token + p.r.Int64N(p.last-token+1); p.r.IntN(2) == 0 {
		p.last = token
	}
	p.next = max(xid, next, p.trimNext, p.trimmed)
}

// forget undoes a commit.
func (p *tables) forget(tx *Tx, wasOnDisk bool) {
	if tx.undo != nil {
		tx.undo()
	}
	for n, next := range tx.rows {
		was := tx.was[n]
		if was.locked = false; was.xid == tx.xid && was.status == rowEnded { // it was inserted
			was.xid = 0
		}
		if *p.rows[next.id] = was; wasOnDisk {
			p.forgotten[next.id] = true
		}
	}
	p.marks = slices.DeleteFunc(p.marks, func(m mark) bool { return m.xid == tx.xid })
	p.starts = slices.DeleteFunc(p.starts, func(s countedStart) bool { return s.xid == tx.xid })
	p.started = slices.DeleteFunc(p.started, func(s exactStart) bool { return s.xid == tx.xid })
	p.forgetPaces(tx.xid)
}

// beginEpoch begins an epoch if there is none: see begin_epoch in sql/claim/memory.sql.
func (p *tables) beginEpoch(tx *Tx) {
	if p.epoch == (schedule.Epoch{}) && tx.epoch == (schedule.Epoch{}) {
		p.epochs++
		tx.epoch = schedule.Epoch{p.epochs}
		p.last += 1_000_000 + p.r.Int64N(1_000_000)
	}
}
