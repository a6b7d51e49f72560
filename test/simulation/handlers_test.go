package simulation

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/claim/schedule"
	statements "github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// handler executes a statement of a replica in a transaction, which it may leave without a write.
type handler func(w *world, of *replica, tx *simpg.Tx, args []any) table

// handlers are the statements that the simulated Postgres knows.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"lock_claims": func(*world, *replica, *simpg.Tx, []any) table { return table{{"lock_claims": nil}} },
		"claim":       claims, "claim_plain": claimsPlain, "claim_head": claimHead, "park": park,
		"dispatched": settles("dispatched"), "retry": settles("retry"), "release": settles("release"),
		"fail":      settles("fail"),
		"hasten":    hasten,
		"heartbeat": heartbeat, "give_back": giveBack, "release_unread": releaseUnread, "last_token": lastToken,
		"unlocked": unlocked,
		"look":     look, "load": load, "arrivals": arrivals, "epoch": epoch, "enqueued_before": enqueuedBefore,
		"node_ids": nodeIDs,
		"sweep":    sweep, "bring_back": bringBack,
		"finish": finish, "finish_all": finishAll, "adopt": adopt, "swap_watches": swapWatches,
		"missing": noteMissing, "found": noteFound, "give_up_watches": giveUpWatches, "signal_take": signalTake,
	}
	for name := range handlers {
		names[statements.Text(name)] = name
	}
}

// executionOf returns the execution ID of an item, and itemOf the reverse.
func executionOf(item int64) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(item))
	return id.String()
}

func itemOf(execution string) int64 {
	id := uuid.MustParse(execution)
	return int64(binary.BigEndian.Uint64(id[8:]))
}

func itemsOf(executions []string) []int64 {
	if executions == nil {
		return nil
	}
	items := []int64{}
	for _, execution := range executions {
		items = append(items, itemOf(execution))
	}
	return items
}

func claims(w *world, of *replica, tx *simpg.Tx, args []any) table {
	w.claimsAlone()
	of.declined, w.tables.Fresh = 0, of.fresh
	p := w.proposed(args[4].(string))
	c := w.tables.Claim(tx, of.n, args[2].(*string) != nil, p)
	if p.Unanswered > 0 && !slices.ContainsFunc(c.Items, func(i simpg.Item) bool { return i.Unanswered }) {
		of.passedOver = true
	}
	return w.claimed(of, c, false)
}

func claimHead(w *world, of *replica, _ *simpg.Tx, args []any) (rows table) {
	if head := w.tables.Head(of.n, w.proposed(args[2].(string))); head != nil {
		rows = table{{"id": head.ID, "workspace_id": head.Workspace}}
	}
	return rows
}

func park(w *world, of *replica, _ *simpg.Tx, args []any) table {
	if of.parks(); w.lies == "items are parked twice" {
		of.parks()
	}
	w.say("%s parks %d", of.name, args[0])
	w.count("parked")
	return table{{"park": w.tables.Park(args[0].(int64))}}
}

// proposed reads a claim_proposal.
func (w *world) proposed(text string) schedule.Proposal {
	var sent struct {
		Epoch      *uuid.UUID     `json:"epoch"`
		AtMost     int            `json:"at_most"`
		Leased     int            `json:"leased"`
		LeasedTo   int64          `json:"leased_to"`
		Unanswered int            `json:"unanswered"`
		Alone      bool           `json:"alone"`
		Careful    bool           `json:"careful"`
		Namespaces map[string]int `json:"namespaces"`
		Entries    []struct {
			WorkspaceID uuid.UUID `json:"workspace_id"`
			Priority    int       `json:"priority"`
			LimitKey    string    `json:"limit_key"`
			Items       int       `json:"items"`
			Burst       bool      `json:"burst"`
			RunAt       time.Time `json:"run_at"`
			ID          int64     `json:"id"`
			Floor       int64     `json:"floor"`
			Held        int       `json:"held"`
			HeldTo      int64     `json:"held_to"`
		} `json:"entries"`
	}
	if err := json.Unmarshal([]byte(text), &sent); err != nil {
		panic(err)
	}
	p := schedule.Proposal{Want: schedule.Want{Careful: sent.Careful},
		AtMost: sent.AtMost, Unanswered: sent.Unanswered, Alone: sent.Alone,
		Leased: schedule.Receipt{Held: sent.Leased, To: sent.LeasedTo}}
	if sent.Epoch != nil {
		p.Epoch = schedule.Epoch(*sent.Epoch)
	}
	for _, e := range sent.Entries {
		p.Entries = append(p.Entries, schedule.Entry{Workspace: schedule.WorkspaceID(e.WorkspaceID), Priority: e.Priority,
			Key: e.LimitKey, Items: e.Items, Burst: e.Burst, From: schedule.Position{Due: e.RunAt, ID: e.ID},
			Receipt: schedule.Receipt{Floor: e.Floor, Held: e.Held, To: e.HeldTo}})
	}
	w.tables.Allow(sent.Namespaces, w.namespaceOf)
	return p
}

func claimsPlain(w *world, of *replica, tx *simpg.Tx, args []any) table {
	epoch := uuid.MustParse(args[3].(string))
	p := schedule.Proposal{Epoch: schedule.Epoch(epoch), AtMost: args[4].(int),
		Leased: schedule.Receipt{Held: args[5].(int), To: args[6].(int64)}}
	for n, workspace := range args[7].([]schedule.WorkspaceID) {
		p.Entries = append(p.Entries, schedule.Entry{Workspace: workspace,
			Priority: args[8].([]int)[n], Items: args[9].([]int)[n],
			From: schedule.Position{Due: args[10].([]time.Time)[n], ID: args[11].([]int64)[n]},
			Receipt: schedule.Receipt{Floor: args[12].([]int64)[n], Held: args[13].([]int)[n],
				To: args[14].([]int64)[n]}})
	}
	w.claimsAlone()
	w.tables.Fresh = of.fresh
	w.tables.Allow(nil, nil)
	c := w.tables.Plain(tx, of.n, args[2].(*string) != nil, p)
	of.declines(c, epoch == uuid.Nil || w.lies == "epochs are not known")
	return w.claimed(of, c, true)
}

// refuses ends a statement by an error of a user's trigger. The answer to the next may be lost.
func (w *world) refuses(of *replica) {
	w.count("refused")
	of.unlucky = true
	w.refusal = &pgconn.PgError{Severity: "ERROR", Code: "P0001", Message: "not this item"}
}

// claimed are the rows of a claim. The standing is in the first row if it was claimed by claim_plain.
func (w *world) claimed(of *replica, c simpg.Claimed, plain bool) (rows table) {
	if c.Waits {
		w.count("locked items")
		w.refusal = lockTimeout
		return nil
	}
	if c.Refused {
		w.refuses(of)
		return nil
	}
	for _, i := range c.Items {
		problem := ""
		if i.Lost >= 3 {
			problem = string(claim.HolderLost)
		}
		rows = append(rows, w.claimedRow(i, problem))
	}
	w.say("%s is given %v", of.name, c.Items)
	standing := w.claimedRow(simpg.Item{}, "")
	if plain && len(rows) > 0 {
		standing = rows[0]
	} else {
		rows = append(rows, standing)
	}
	if standing["standing"] = []byte(c.Standing); w.rare(150) || of.unread(60) {
		w.count("unreadable")
		standing["standing"] = [][]byte{[]byte("{}"), []byte("?"), nil}[w.IntN(3)]
	}
	return rows
}

func (w *world) claimedRow(i simpg.Item, problem string) map[string]any {
	if w.lies == "one answer of not found is believed" {
		i.MissingFor = time.Hour
	}
	return map[string]any{
		"id": i.ID, "token": i.Token, "execution_id": executionOf(i.ID), "workspace_id": uuid.UUID(i.Workspace).String(),
		"workflow_definition_id": "", "workflow_definition_version_id": uuid.UUID(i.Workspace).String(),
		"namespace": w.namespaceOf(i.Workspace),
		"kind":      "workflow", "workflow_type": "Order", "task_queue": "orders", "input": "envelope",
		"execution_timeout": time.Duration(0), "version_revision": fmt.Sprint(w.tables.Graph(i.Workspace).Revision),
		"params": []byte("{}"), "traceparent": "",
		"attempt_count": i.Attempts, "failure_count": i.Failures, "max_attempts": 3, "outcome_unknown": i.Unanswered,
		"unanswered_for": i.UnansweredFor, "tries": i.Tries, "failing_for": time.Duration(0), "missing_for": i.MissingFor,
		"last_error": "", "given_up_by": "", "problem": problem, "waited": i.Waited, "priority": i.Priority,
		"start_options": []byte(nil), "limit_key": i.Key, "workflow_id": "", "workflow_id_policy": "",
		"standing": []byte(nil),
	}
}

func idRows(ids []int64) (rows table) {
	for _, id := range ids {
		rows = append(rows, map[string]any{"id": id})
	}
	return rows
}

func settles(verb string) handler {
	return func(w *world, of *replica, tx *simpg.Tx, args []any) table {
		ids, tokens := args[0].([]int64), args[1].([]int64)
		for _, id := range ids {
			if w.tables.RefusesEnd[id] {
				w.passedOver[id] = true
				w.refuses(of)
				return nil
			}
		}
		var settled []int64
		for n, id := range ids {
			var end simpg.Settlement
			switch verb {
			case "retry", "release":
				end.Delay, end.Unanswered = args[3].([]time.Duration)[n], args[4].([]bool)[n]
				if verb == "release" {
					end.Alone, end.Missing = args[5].([]bool)[n], args[6].([]bool)[n]
				}
			case "dispatched":
				end.Run = args[2].([]string)[n]
				if args[3].(*string) != nil {
					end.Watcher = of.n
				}
			}
			if w.tables.Settle(tx, of.n, verb, id, tokens[n], end) {
				settled = append(settled, id)
			}
		}
		w.say("%s settles %v as %s: %v", of.name, ids, verb, settled)
		return idRows(settled)
	}
}

func heartbeat(w *world, of *replica, tx *simpg.Tx, args []any) table {
	var renewed []int64
	for n, id := range args[0].([]int64) {
		if w.tables.Heartbeat(tx, of.n, id, args[1].([]int64)[n], args[2].(time.Duration)) {
			renewed = append(renewed, id)
		}
	}
	w.say("%s renews %v: %v", of.name, args[0], renewed)
	return idRows(renewed)
}

func hasten(w *world, of *replica, tx *simpg.Tx, args []any) table {
	hastened := w.tables.Hasten(tx, args[0].([]int64))
	w.say("%s hastens %v: %v", of.name, args[0], hastened)
	return idRows(hastened)
}

func giveBack(w *world, of *replica, tx *simpg.Tx, args []any) table {
	given := w.tables.GiveBack(tx, of.n, args[1].([]int64), args[2].(int64))
	w.say("%s gives back what it does not hold: %v", of.name, given)
	return idRows(given)
}

func releaseUnread(w *world, of *replica, tx *simpg.Tx, args []any) table {
	w.tables.ReleaseUnread(tx, of.n, args[1].(int64), args[2].(int64))
	return nil
}

func lastToken(w *world, _ *replica, _ *simpg.Tx, _ []any) table {
	return table{{"last": w.tables.LastToken()}}
}

func unlocked(w *world, _ *replica, _ *simpg.Tx, args []any) table {
	return idRows(slices.DeleteFunc(slices.Clone(args[0].([]int64)), func(id int64) bool {
		w.passedOver[id] = w.passedOver[id] || w.tables.Locked([]int64{id})
		return w.tables.Locked([]int64{id})
	}))
}

func look(w *world, of *replica, _ *simpg.Tx, args []any) (rows table) {
	head, gap, all, changes := w.tables.Look(args[0].(string), args[1].(int), args[2].(*string))
	row := func() map[string]any {
		r := w.head(head)
		for _, name := range []string{"workspace_id", "priority", "limit_keys", "due", "items", "wake_number"} {
			r[name] = nil
		}
		r["gap"], r["changed"], r["limit_key"] = gap, false, ""
		return r
	}
	if rows = append(rows, row()); all {
		rows = append(rows, row())
		rows[1]["changed"], rows[1]["items"] = true, 0
	}
	for _, c := range changes {
		r := row()
		r["changed"], r["workspace_id"], r["limit_keys"], r["wake_number"], r["items"] = true, c.Workspace, c.Keys, c.Number,
			c.Items
		if c.Waits {
			r["priority"], r["due"], r["limit_key"] = c.Priority, c.Due, c.Key
		}
		rows = append(rows, r)
	}
	of.looked = of.sees(head)
	w.say("%s looks: %d changes, gap %t", of.name, len(changes), gap)
	return rows
}

func load(w *world, of *replica, _ *simpg.Tx, args []any) (rows table) {
	var after *schedule.Waiting
	if workspace, ok := args[1].(string); ok {
		after = &schedule.Waiting{Workspace: schedule.WorkspaceID(uuid.MustParse(workspace)), Priority: args[2].(int)}
		if key := args[3].(*string); key != nil {
			after.Key = *key
		}
	}
	xid := int64(0)
	if of := args[0].(*string); of != nil {
		xid, _ = strconv.ParseInt(*of, 10, 64)
	}
	if after == nil && xid == 0 {
		clear(of.rated)
	}
	if after != nil && args[4].(int) == loadQueues && w.cutsLoad {
		w.cutsLoad, w.refusal = false, errCut
	}
	of.compares(xid, args[4].(int))
	head, all := w.tables.Load(xid, after, args[4].(int))
	row := func() map[string]any {
		r := w.head(head)
		for _, name := range []string{"workspace_id", "priority", "run_at", "id", "held", "slots", "burst_limit",
			"workspace_paused"} {
			r[name] = nil
		}
		r["limit_key"], r["wake_number"], r["parked"], r["own_full"], r["all_full"] = "", 0, false, false, false
		return r
	}
	for _, l := range all {
		r := row()
		r["workspace_id"], r["priority"], r["limit_key"], r["run_at"], r["id"] = l.Workspace, l.Priority, l.Key, l.From.Due,
			l.From.ID
		r["held"], r["slots"], r["burst_limit"], r["workspace_paused"] = l.Held, l.Limit, l.BurstLimit, false
		r["wake_number"], r["parked"], r["own_full"], r["all_full"] = l.Number, w.tables.IsParked(l.From.ID), l.OwnFull,
			l.AllFull
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		rows = table{row()}
	}
	w.say("%s loads %d key queues", of.name, len(all))
	return rows
}

func arrivals(w *world, of *replica, _ *simpg.Tx, args []any) (rows table) {
	found := w.tables.Arrivals(args[0].(string), args[1].(string), args[2].(int))
	for _, xid := range slices.Sorted(maps.Keys(found)) {
		for _, l := range found[xid] {
			rows = append(rows, map[string]any{"xid": fmt.Sprint(xid), "workspace_id": l.Workspace, "priority": l.Priority,
				"limit_key": l.Key, "due": l.From.Due, "wake_number": l.Number})
		}
	}
	w.say("%s reads the arrivals of %d transactions", of.name, len(found))
	return rows
}

func (w *world) head(h simpg.Seen) map[string]any {
	return map[string]any{"seen": h.Seen, "now": w.now(), "unanswered_at": h.UnansweredAt, "suspect": h.Suspect,
		"aging": 5 * time.Second, "paused": w.tables.Paused()}
}

func epoch(w *world, _ *replica, tx *simpg.Tx, _ []any) table {
	return table{{"id": w.tables.EpochID(tx)}}
}

func enqueuedBefore(w *world, _ *replica, _ *simpg.Tx, args []any) (rows table) {
	for _, workspace := range w.tables.EnqueuedBefore(args[0].([]int64), args[1].(string)) {
		rows = append(rows, map[string]any{"workspace_id": workspace})
	}
	return rows
}

func nodeIDs(w *world, of *replica, _ *simpg.Tx, args []any) (rows table) {
	if of.unread(8) {
		w.refusal = errCut
	}
	for _, id := range args[0].([]string) {
		graph := w.tables.Graph(schedule.WorkspaceID(uuid.MustParse(id)))
		rows = append(rows, map[string]any{"id": id, "revision": fmt.Sprint(graph.Revision),
			"node_ids": fmt.Sprint(graph.Nodes)})
	}
	return rows
}

func sweep(w *world, of *replica, tx *simpg.Tx, _ []any) table {
	s := w.tables.Sweep(tx, of.n, w.alive)
	w.say("%s sweeps: %d requeued, unwatched %t", of.name, s.Requeued, s.Unwatched)
	return table{{"requeued": s.Requeued, "late": 0, "next_expiry_in": s.NextExpiryIn, "now": w.now(),
		"oldest_open": s.OldestOpen, "epoch": w.tables.EpochNow(),
		"open": s.Open, "mine": s.Mine, "unwatched": s.Unwatched, "stops": false,
		"failing": map[string]string{}, "housework": false,
		"signals": w.tables.OpenSignals() > 0, "deletes": false, "announces": false,
		"vanished": []string{}, "namespaces": []string{"a", "b"}, "notify_queue": 0.0}}
}

func bringBack(w *world, of *replica, tx *simpg.Tx, _ []any) table {
	times, openTo := w.tables.BringBack(tx)
	w.say("%s brings back %d times", of.name, times)
	return table{{"times": times, "more": false, "open_to": openTo}}
}
