package scenario

import "github.com/pgdispatch/pgdispatch/test/bench/internal/lab"

// Signals measures the time from a signal's commit to its acceptance, beside an item's start.
func Signals() *Scenario {
	return &Scenario{
		Name: "signal", Title: "From a signal to its acceptance, idle system",
		Text: "As in scenario idle, items and signals to workflows that run take turns, one every 35 ms or so, from before " +
			"the statement is sent until the frontend has the start or the signal. Each commits by itself.",
		Entrants: []Entrant{
			idleEntrant(ours, blue, replicas(1, lab.Replica{}, Alone("enqueue")), idleRate, 20,
				map[string]Insert{"start": Alone("enqueue"), "signal": Alone("signal")}),
		},
		Columns: []Column{{"start50", "start: p50 ms"}, {"start99", "p99 ms"}, {"signal50", "signal: p50 ms"},
			{"signal99", "p99 ms"}},
		Bars: []Bar{
			{Text: "Commit to acceptance, p50, a signal / a start", Value: Key{ours, "signal50"},
				Against: Key{ours, "start50"}, Level: 1.2},
			{Text: "The same, p99", Value: Key{ours, "signal99"}, Against: Key{ours, "start99"}, Informative: true},
		},
	}
}
