package audit

import (
	"slices"
	"time"
)

// history has the acknowledgements and the starts of a record in order.
type history struct {
	acknowledged []Write // by the time of acknowledgement
	starts       []time.Time
	flows        []flow
	started      map[string]time.Time
}

// flow is a time in which acknowledgements never stayed away for FlowGap.
type flow struct{ from, to time.Time }

func newHistory(r Record, started map[string]time.Time) *history {
	h := &history{started: started}
	for _, w := range r.Writes {
		if !w.Acknowledged.IsZero() {
			h.acknowledged = append(h.acknowledged, w)
		}
	}
	slices.SortFunc(h.acknowledged, func(a, b Write) int { return a.Acknowledged.Compare(b.Acknowledged) })

	for _, at := range started {
		h.starts = append(h.starts, at)
	}
	slices.SortFunc(h.starts, time.Time.Compare)

	for _, w := range h.acknowledged {
		if last := len(h.flows) - 1; last >= 0 && w.Acknowledged.Sub(h.flows[last].to) < FlowGap {
			h.flows[last].to = w.Acknowledged
		} else {
			h.flows = append(h.flows, flow{w.Acknowledged, w.Acknowledged})
		}
	}
	return h
}

// times returns what became of an event.
func (h *history) times(e Event) Times {
	t := Times{Event: e}
	t.Gap = h.gap(e)

	back := false
	for _, flow := range h.flows {
		if flow.from.After(e.Begin) && flow.from.Before(e.End) { // acknowledgements came back
			back = true
			t.resume(h, flow.from)
		}
		t.Silence = max(t.Silence, h.silence(later(flow.from, e.Begin), earlier(flow.to, e.End)))
	}
	if !back { // they were never away for long, so that the next one after the event counts
		if next := h.next(e.Begin); !next.IsZero() {
			t.resume(h, next)
		} else {
			t.Never = true
		}
	}

	for _, w := range h.acknowledged {
		at := h.started[w.Execution]
		if !at.IsZero() && !w.Acknowledged.Before(e.Begin) && w.Acknowledged.Before(e.End) {
			t.Slowest = max(t.Slowest, at.Sub(later(w.Acknowledged, h.flowing(at))))
		}
	}
	return t
}

// resume notes how long after from the first item started that was acknowledged from then on.
func (t *Times) resume(h *history, from time.Time) {
	var first time.Time
	for _, w := range h.acknowledged {
		at := h.started[w.Execution]
		if !w.Acknowledged.Before(from) && !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		t.Never = true
		return
	}
	t.Resumed = max(t.Resumed, first.Sub(from)) // a start may precede the acknowledgement, which is no delay
}

// gap returns the longest time between two acknowledgements, the second of which is in the event.
func (h *history) gap(e Event) (longest time.Duration) {
	last := e.Begin
	for _, w := range h.acknowledged {
		if w.Acknowledged.After(e.Begin) && w.Acknowledged.Before(e.End) {
			longest = max(longest, w.Acknowledged.Sub(last))
		}
		last = later(last, w.Acknowledged)
	}
	return longest
}

// next returns the first acknowledgement after a time, or zero.
func (h *history) next(after time.Time) time.Time {
	for _, w := range h.acknowledged {
		if w.Acknowledged.After(after) {
			return w.Acknowledged
		}
	}
	return time.Time{}
}

// flowing returns since when acknowledgements flowed at a time, or before it.
func (h *history) flowing(at time.Time) (since time.Time) {
	for _, flow := range h.flows {
		if !flow.from.After(at) {
			since = flow.from
		}
	}
	return since
}

// silence returns the longest time without a start between two times.
func (h *history) silence(from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range h.starts {
		if at.After(from) && at.Before(to) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return max(longest, to.Sub(last))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
