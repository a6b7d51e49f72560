package sql_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// is returns a condition on a table's only row.
func is(f fixture, table, condition string, args ...any) func() bool {
	return func() bool { return one[bool](f, "select "+condition+" from pgdispatch."+table, args...) }
}

// whatWaits lists everything that waits for a stored time.
func whatWaits() []waits {
	var all []waits
	for _, some := range [][]waits{itemsThatWait, limitsThatWait, turnsThatWait, messagesThatWait, retentionThatWaits} {
		all = append(all, some...)
	}
	return all
}

var itemsThatWait = []waits{
	{name: "an item", columns: "workflow_execution_queue.run_at workflow_execution_queue.created_at",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			return func() bool { return len(f.claim(1).Items) == 1 }
		}},
	{name: "a retry", columns: "item_failures.failed_at", prepare: func(f fixture) func() bool {
		f.item(f.tenant("FREE"))
		b := f.claim(1)
		all[int64](f, sql.Text("retry"), b.ids(), b.tokens(), []string{"boom"}, []time.Duration{5 * time.Minute},
			[]bool{false})
		return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '4 minutes' and '5 minutes'")
	}},
	{name: "a retry without an answer", columns: "workflow_execution_queue.run_at", prepare: func(f fixture) func() bool {
		f.item(f.tenant("FREE"))
		b := f.claim(1)
		all[int64](f, sql.Text("retry"), b.ids(), b.tokens(), []string{"boom"}, []time.Duration{5 * time.Minute},
			[]bool{true})
		return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '4 minutes' and '5 minutes'")
	}},
	{name: "a new item's debounce", columns: "enqueue_keys.debounced_at", prepare: func(f fixture) func() bool {
		f.enqueue(f.tenant("FREE"), 1, "key => 'a', on_conflict => 'debounce', quiet => '5 minutes'")
		return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '4 minutes' and '5 minutes'")
	}},
	{name: "a debounce of an earlier item", columns: "enqueue_keys.debounced_at", prepare: func(f fixture) func() bool {
		w := f.tenant("FREE")
		first := f.enqueue(w, 1, "key => 'a', on_conflict => 'replace', run_at => now() + interval '1 minute'")
		f.exec("update pgdispatch.enqueue_keys set debounced_at = null")
		f.enqueue(w, 2, "key => 'a', on_conflict => 'debounce', quiet => '5 minutes'")
		f.age(2*time.Hour, first.ID)
		return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '4 minutes' and '5 minutes'")
	}},
	{name: "the end of a debounce", columns: "workflow_execution_queue.created_at", itself: true,
		prepare: func(f fixture) func() bool {
			w := f.tenant("FREE")
			const debounce = "key => 'a', on_conflict => 'debounce', quiet => '1 minute', at_most => '1 minute'"
			id := f.enqueue(w, 1, debounce).ID
			return func() bool {
				f.enqueue(w, 2, debounce)
				f.age(time.Minute, id)
				f.enqueue(w, 3, debounce)
				return len(f.claim(1).Items) == 1
			}
		}},
	{name: "an item whose debounce was over", columns: "workflow_execution_queue.run_at",
		prepare: func(f fixture) func() bool {
			w := f.tenant("FREE")
			const debounce = "key => 'a', on_conflict => 'debounce', quiet => '10 s', at_most => '1 min'"
			f.age(2*time.Minute, f.enqueue(w, 1, debounce).ID)
			f.enqueue(w, 2, debounce)
			return func() bool { return len(f.claim(1).Items) == 1 }
		}},
	{name: "an item that is being started, for its release", columns: "workflow_execution_queue.run_at",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			f.claim(1)
			return is(f, "workflow_execution_queue", "run_at <= clock_timestamp()")
		}},
	{name: "an unanswered start", columns: "workflow_execution_queue.run_at workflow_executions.first_sent_at",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			f.release(f.claim(1), true)
			return func() bool {
				b := f.claim(1)
				return len(b.Items) == 1 && b.Items[0].Unanswered && b.Items[0].UnansweredFor >= 0
			}
		}},
	{name: "a start whose workflow was busy", columns: "workflow_execution_queue.run_at",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			b := f.claim(1)
			all[int64](f, sql.Text("release"), b.ids(), b.tokens(), []string{"busy"}, []time.Duration{time.Second}, []bool{true},
				[]bool{false}, []bool{false})
			return is(f, "workflow_execution_queue", "run_at <= clock_timestamp() + interval '2 seconds'")
		}},
	{name: "an item that fails alone", columns: "start_tries.tried_at start_tries.since",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			f.failsAlone(f.claim(1), "no", 20*time.Second, false)
			return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '10 seconds' and '20 seconds'")
		}},
	{name: "an item that is tried again after a moment", columns: "start_tries.tried_at",
		prepare: func(f fixture) func() bool {
			f.item(f.tenant("FREE"))
			b := f.claim(1)
			all[int64](f, sql.Text("release"), b.ids(), b.tokens(), []string{"no"}, []time.Duration{20 * time.Second},
				[]bool{false}, []bool{false}, []bool{false})
			return is(f, "workflow_execution_queue", "run_at - clock_timestamp() between '10 seconds' and '20 seconds'")
		}},
	{name: "a dead holder's lease",
		columns: "workflow_execution_queue.claimed_at workflow_execution_queue.lease_expires_at",
		prepare: func(f fixture) func() bool {
			id := f.item(f.tenant("FREE"))
			f.claim(1)
			return func() bool { return f.leftOf(id) <= lease }
		}},
	{name: "an item that is parked", columns: "parked_items.try_at", prepare: func(f fixture) func() bool {
		id := f.item(f.tenant("FREE"))
		f.exec(sql.Text("park"), id, "refused")
		return func() bool { return len(f.claim(1).Items) == 1 }
	}},
}

var limitsThatWait = []waits{
	{name: "a workspace's rate", columns: "rates.at", prepare: func(f fixture) func() bool {
		w := f.tenant("ENTERPRISE")
		f.rate(w, 1)
		f.item(w)
		f.claim(1)
		return func() bool {
			f.item(w)
			f.exec("update pgdispatch.rates set at = at - interval '1 second'") // as if its second had passed
			return len(f.claim(1).Items) == 1
		}
	}},
	{name: "a key's rate", columns: "limit_starts.until", prepare: func(f fixture) func() bool {
		w := f.tenant("ENTERPRISE")
		f.exec("insert into pgdispatch.limits (key, max_starts, per) values ('a', '{1,10}', '{1 min,1 hour}')")
		f.keyed(w, "a", 1)
		f.claim(1)
		return func() bool {
			require.Equal(f.t, []int{1, 1}, all[int](f, "select items from pgdispatch.limit_starts"), "no start is forgotten")
			f.keyed(w, "a", 1)
			f.exec("update pgdispatch.limit_starts set until = until - interval '63 seconds'") // a period and its twentieth
			return len(f.claim(1).Items) == 1
		}
	}},
}

var turnsThatWait = []waits{
	{name: "the list of closed workflows", columns: "close_sweep.looked_at workflow_executions.started_at " +
		"close_lists.swept_to close_lists.wide_at",
		prepare: func(f fixture) func() bool {
			f.oneRunning()
			turns := func() bool {
				found := must.Get((&complete.Postgres{DB: f.db}).CloseTurns(f.t.Context(), 0, 0)).In(f.t)
				return len(found) == 1 && found[0].Wide && time.Until(found[0].Since) < time.Second
			}
			require.True(f.t, turns())
			require.NoError(f.t, (&complete.Postgres{DB: f.db}).CloseDone(f.t.Context(),
				complete.Turn{Namespace: "default", Wide: true}, time.Now()))
			return turns
		}},
	{name: "the question about a silent execution", columns: "workflow_executions.asked_at workflow_executions.started_at",
		prepare: func(f fixture) func() bool {
			f.oneRunning()
			asked := func() bool {
				found := must.Get((&complete.Postgres{DB: f.db}).Silent(f.t.Context(), 1, 0)).In(f.t)
				return len(found) == 1
			}
			require.True(f.t, asked())
			return asked
		}},
	{name: "a dead replica's watches", columns: "replicas.renewed_at replicas.expires_at",
		prepare: func(f fixture) func() bool {
			f.exec(sql.Text("replica_alive"), "replica-1", "dev", 4, lease, "default", "{}")
			return is(f, "replicas", "expires_at - clock_timestamp() <= $1::interval", lease)
		}},
	{name: "the trim of marks", columns: "mark_trim.next_at", prepare: func(f fixture) func() bool {
		f.cancel(f.item(f.tenant("FREE")))
		f.sweep()
		return is(f, "mark_trim", "next_at - clock_timestamp() <= '30 seconds'")
	}},
	{name: "the look for stalls", columns: "stall_look.looked_at", prepare: func(f fixture) func() bool {
		look := func() bool {
			_, mine, err := f.sweeps().StallTurn(f.t.Context(), 0, 0, 1)
			require.NoError(f.t, err)
			return mine
		}
		require.True(f.t, look())
		return look
	}},
	{name: "the news of a stall", columns: "stalls.since", prepare: func(f fixture) func() bool {
		known := func() bool { return len(f.record([]string{"reports"}, nil, nil)) == 0 }
		require.False(f.t, known())
		return known
	}},
	{name: "the depth of a minute", columns: "activity.minute", prepare: func(f fixture) func() bool {
		f.sweep()
		return func() bool { return f.count("activity where minute > clock_timestamp()") == 0 }
	}},
	{name: "the activity of five minutes", columns: "workspace_activity.at", prepare: func(f fixture) func() bool {
		f.exec("insert into pgdispatch.workspace_activity (at, workspace_id) values (now(), gen_random_uuid())")
		return func() bool { return f.count("workspace_activity where at > clock_timestamp()") == 0 }
	}},
	{name: "the use of limits by minute", columns: "limit_activity.minute limit_activity.full_since",
		prepare: func(f fixture) func() bool {
			f.exec("insert into pgdispatch.limit_activity values (now(), 1, 0, 0, now())")
			return func() bool { return f.count("limit_activity where full_since > clock_timestamp()") == 0 }
		}},
}

var messagesThatWait = []waits{
	{name: "a signal", columns: "signals.next_try_at", prepare: func(f fixture) func() bool {
		f.signal(f.oneRunning(), "a")
		return func() bool { return len(f.takeSignals().Now) == 1 }
	}},
	{name: "a signal that was refused", columns: "signals.next_try_at", prepare: func(f fixture) func() bool {
		f.signal(f.oneRunning(), "a")
		f.takeSignals(settle(f.takeSignals().Now[0], "OPEN", "refused", ""))
		return is(f, "signals", "next_try_at - clock_timestamp() <= '30 seconds'")
	}},
	{name: "the look for signals that wait for nothing", columns: "signal_turn.looked_at",
		prepare: func(f fixture) func() bool {
			id := f.oneRunning()
			f.takeSignals()
			f.signal(id, "a")
			f.exec("update pgdispatch.signals set next_try_at = 'infinity'")
			return func() bool {
				f.exec("update pgdispatch.signal_turn set looked_at = looked_at - interval '11 seconds'") // its period
				return len(f.takeSignals().Now) == 1
			}
		}},
	{name: "a stop request", columns: "stop_requests.next_try_at", prepare: func(f fixture) func() bool {
		f.stop(f.oneRunning(), "CANCEL")
		return func() bool {
			given, _ := f.stops()
			return len(given) == 1
		}
	}},
	{name: "a stop request that was tried", columns: "stop_requests.next_try_at", prepare: func(f fixture) func() bool {
		f.stop(f.oneRunning(), "CANCEL")
		f.stops()
		return is(f, "stop_requests", "next_try_at - clock_timestamp() <= '30 seconds'")
	}},
}

var retentionThatWaits = []waits{
	{name: "the next pass of the retention", columns: "retention_walk.next_pass_at", prepare: func(f fixture) func() bool {
		f.keep(day, nil)
		f.deleteFinished(10)
		return is(f, "retention_walk", "next_pass_at - clock_timestamp() <= '1 minute'")
	}},
	{name: "the deletion of an item", columns: "workflow_execution_queue.finished_at", itself: true,
		prepare: func(f fixture) func() bool {
			w := f.tenant("ENTERPRISE")
			ids := f.done(w, 3)
			f.keep(time.Minute, nil)
			return func() bool {
				for range len(ids) {
					require.Equal(f.t, deleted{}, f.anew().deleteFinished(10), "none is older than a minute for certain")
				}
				f.age(61*time.Second, ids...)
				return f.anew().deleteFinished(10).Items == len(ids)
			}
		}},
	{name: "the deletion of a dead letter", columns: "dead_letter_marks.marked_at", itself: true,
		prepare: func(f fixture) func() bool {
			ids := f.dead(f.tenant("ENTERPRISE"), 2)
			f.discard(ids[0])
			f.discard(ids[1])
			f.keep(time.Minute, nil)
			return func() bool {
				require.Equal(f.t, deleted{}, f.anew().deleteFinished(10))
				f.age(61*time.Second, ids...)
				return f.anew().deleteFinished(10).DeadLetters == len(ids)
			}
		}},
}
