// Package audit compares what applications know with what Temporal has run and what the database has kept, around
// failovers.
package audit

import (
	"slices"
	"time"
)

// FlowGap is the time without an acknowledgement from which acknowledgements count as interrupted.
const FlowGap = 500 * time.Millisecond

// Write is an insert of one item.
type Write struct {
	// Execution is the item's execution ID.
	Execution string
	// Sent is when the insert was sent. Acknowledged is when its commit was answered. Zero means that it was not: the
	// item may exist.
	Sent, Acknowledged time.Time
}

// Run is one run of a workflow, as listed by Temporal.
type Run struct {
	// Execution is the execution that it was started for.
	Execution string
	// Started is Temporal's time.
	Started time.Time
}

// Event is something that was done to the cluster.
type Event struct {
	// Kind names it.
	Kind string
	// Begin is when it began. End is when the cluster was healthy again and a while had passed.
	Begin, End time.Time
}

// Record is what was recorded of one cluster.
type Record struct {
	// Sync means that the cluster was synchronous: it may lose nothing that it has acknowledged.
	Sync bool
	// Writes are all inserts. Runs are all workflows of Temporal.
	Writes []Write
	Runs   []Run
	// Rows are the executions of all items that the database has in the end.
	Rows []string
	// Events are in order.
	Events []Event
}

// Times are what became of one event.
type Times struct {
	Event
	// Gap is the longest time without an acknowledgement.
	Gap time.Duration
	// Resumed is how long after the first acknowledgement the first item started that was acknowledged after the gap.
	// If there were several gaps, it is the longest. Never means that none was.
	Resumed time.Duration
	// Never means that no item started that was acknowledged after a gap.
	Never bool
	// Silence is the longest time in which acknowledgements flowed and nothing started.
	Silence time.Duration
	// Slowest is the longest time from an acknowledgement to that item's start. If acknowledgements stayed away meanwhile,
	// it counts from when they were back.
	Slowest time.Duration
}

// Findings are what the audit has found.
type Findings struct {
	// Acknowledged and Unknown are how many writes were answered, and not.
	Acknowledged, Unknown int
	// Lost are the acknowledged items that neither the database nor Temporal has. A synchronous cluster may lose none. An
	// asynchronous one loses what the promoted standby did not have.
	Lost []string
	// Rewound are the items that were started and that the database has lost. Of a synchronous cluster they were not
	// acknowledged.
	Rewound []string
	// RewoundAcknowledged are those of Rewound that were acknowledged. A synchronous cluster may have none.
	RewoundAcknowledged []string
	// Stuck are the items that the database has and that were not started.
	Stuck []string
	// Twice are the executions with more than one run.
	Twice []string
	// Strange are the executions of runs that nobody wrote.
	Strange []string
	// Times are those of each event.
	Times []Times
}

// Check compares a record.
func Check(r Record) (f Findings) {
	started := map[string]time.Time{} // the first run of each execution
	for _, run := range r.Runs {
		first, again := started[run.Execution]
		if again && !slices.Contains(f.Twice, run.Execution) {
			f.Twice = append(f.Twice, run.Execution)
		}
		if !again || run.Started.Before(first) {
			started[run.Execution] = run.Started
		}
	}
	kept := map[string]bool{}
	for _, row := range r.Rows {
		kept[row] = true
	}

	written := map[string]bool{}
	for _, w := range r.Writes {
		written[w.Execution] = true
		f.count(w, kept[w.Execution], !started[w.Execution].IsZero())
	}
	for execution := range started {
		if !written[execution] {
			f.Strange = append(f.Strange, execution)
		}
	}

	h := newHistory(r, started)
	for _, e := range r.Events {
		f.Times = append(f.Times, h.times(e))
	}
	return f
}

// count files one write under what became of it.
func (f *Findings) count(w Write, kept, started bool) {
	acknowledged := !w.Acknowledged.IsZero()
	if acknowledged {
		f.Acknowledged++
	} else {
		f.Unknown++
	}

	switch {
	case kept && !started:
		f.Stuck = append(f.Stuck, w.Execution)
	case !kept && started:
		f.Rewound = append(f.Rewound, w.Execution)
		if acknowledged {
			f.RewoundAcknowledged = append(f.RewoundAcknowledged, w.Execution)
		}
	case !kept && acknowledged:
		f.Lost = append(f.Lost, w.Execution)
	}
}

// Violations returns what must not have happened, in words. Limit is how long starts may stay away once
// acknowledgements are back.
func (f Findings) Violations(sync bool, limit time.Duration) (list []string) {
	if sync {
		list = append(list, violation(f.Lost, "acknowledged by a synchronous cluster and lost")...)
		list = append(list, violation(f.RewoundAcknowledged, "acknowledged by a synchronous cluster, started and lost")...)
	}
	list = append(list, violation(f.Twice, "started twice")...)
	list = append(list, violation(f.Stuck, "in the database and never started")...)
	list = append(list, violation(f.Strange, "started although nobody wrote it")...)
	for _, t := range f.Times {
		list = append(list, t.violations(limit)...)
	}
	return list
}
