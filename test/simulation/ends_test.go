package simulation

import (
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// The statements that end and watch what was started, and those of signals.

func finish(w *world, of *replica, tx *simpg.Tx, args []any) table {
	first := w.tables.Finish(tx, itemOf(args[0].(string)))
	w.say("%s records the end of %d: %t", of.name, itemOf(args[0].(string)), first)
	return table{{"finish": first}}
}

func noteMissing(w *world, of *replica, tx *simpg.Tx, args []any) table {
	item, retention := itemOf(args[0].(string)), args[1].(time.Duration)
	note := w.tables.NoteMissing(tx, item, retention, func(id int64) bool {
		return w.namespaceOf(w.tables.WorkspaceOf(id)) == w.namespaceOf(w.tables.WorkspaceOf(item))
	})
	w.say("%s does not find %d: %+v", of.name, item, note)
	if note == nil {
		return table{}
	}
	return table{{"missing_for": note.For, "young": note.Young, "missing": note.Missing, "watched": note.Watched,
		"given_up_by": ""}}
}

func noteFound(w *world, of *replica, tx *simpg.Tx, args []any) table {
	w.say("%s finds %d again", of.name, itemOf(args[0].(string)))
	w.tables.NoteFound(tx, itemOf(args[0].(string)))
	return table{}
}

func finishAll(w *world, of *replica, tx *simpg.Tx, args []any) (rows table) {
	for _, execution := range args[0].([]string) {
		if item := itemOf(execution); !w.tables.Locked([]int64{item}) {
			rows = append(rows, map[string]any{"id": execution, "first": w.tables.Finish(tx, item)})
		}
	}
	w.say("%s records the ends of %v", of.name, itemsOf(args[0].([]string)))
	return rows
}

func adopt(w *world, of *replica, tx *simpg.Tx, args []any) (rows table) {
	taken := w.tables.Adopt(tx, of.n, args[1].(int), itemsOf(args[2].([]string)), w.alive)
	for _, item := range taken {
		rows = append(rows, map[string]any{"id": executionOf(item), "workflow_id": "", "run_id": "run", "namespace": "",
			"kind": "workflow"})
	}
	w.say("%s adopts %v", of.name, taken)
	return rows
}

func swapWatches(*world, *replica, *simpg.Tx, []any) table { return nil }

func giveUpWatches(w *world, of *replica, tx *simpg.Tx, args []any) table {
	w.tables.GiveUpWatches(tx, of.n, itemsOf(args[1].([]string)))
	return nil
}

func signalTake(w *world, of *replica, tx *simpg.Tx, args []any) (rows table) {
	var settled []simpg.SettledSignal
	for n, id := range args[0].([]int64) {
		settled = append(settled, simpg.SettledSignal{ID: id, Try: args[1].([]int)[n], Outcome: args[2].([]string)[n],
			Failed: args[3].([]*string)[n] != nil, Run: postgres.OrZero(args[4].([]*string)[n])})
	}
	t := w.tables.TakeSignals(tx, settled, itemsOf(args[5].([]string)), args[6].(int))
	row := func() map[string]any {
		r := map[string]any{"workflow_id": "", "namespace": "", "name": "go", "payload": []byte(nil), "signals": 1}
		for _, name := range []string{"execution_id", "run_id", "id", "tries", "request_id", "send_to", "waited", "next_in",
			"given_up", "waits", "unanswered"} {
			r[name] = nil
		}
		rows = append(rows, r)
		return r
	}
	for _, one := range t.Now {
		r := row()
		r["id"], r["execution_id"], r["tries"], r["request_id"] = one.ID, executionOf(one.Item), one.Try, fmt.Sprint(one.ID)
		if r["unanswered"] = one.Doubtful; one.Run != "" {
			r["send_to"] = one.Run
		}
	}
	for _, item := range t.GivenUp {
		r := row()
		r["execution_id"], r["given_up"] = executionOf(item), "workflow had ended"
	}
	r := row()
	r["next_in"], r["waits"] = t.NextIn, t.Waits
	w.say("%s settles the signals %v, takes %v and gives up those of %v", of.name, settled, t.Now, t.GivenUp)
	return rows
}
