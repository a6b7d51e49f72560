package audit

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// begin is when each planted record begins.
var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	// outage is from when to when nothing is acknowledged in a planted record.
	outageFrom, outageTo = 2 * time.Second, 6 * time.Second
	// length is that of a planted record.
	length = 10 * time.Second
	// step is the time between two writes, and delay the time from an acknowledgement to the start.
	step, delay = 100 * time.Millisecond, 30 * time.Millisecond
	limit       = time.Second
)

// healthy returns a record without a violation: a failover of four seconds.
func healthy(sync bool) Record {
	r := Record{Sync: sync, Events: []Event{{Kind: "failover", Begin: begin.Add(outageFrom), End: begin.Add(length)}}}
	for at := time.Duration(0); at < length; at += step {
		if at > outageFrom && at < outageTo {
			continue
		}
		w := Write{Execution: strconv.Itoa(len(r.Writes)), Sent: begin.Add(at), Acknowledged: begin.Add(at)}
		r.Writes, r.Rows = append(r.Writes, w), append(r.Rows, w.Execution)
		r.Runs = append(r.Runs, Run{w.Execution, w.Acknowledged.Add(delay)})
	}
	return r
}

// back returns the number of the first write that was acknowledged after the outage.
func back(r Record) (n int) {
	for r.Writes[n].Acknowledged.Before(begin.Add(outageTo)) {
		n++
	}
	return n
}

func check(r Record) []string { return Check(r).Violations(r.Sync, limit) }

func TestCheck_AcceptsAFailoverThatLosesNothing(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	require.Empty(t, check(r))

	f := Check(r)
	require.Equal(t, len(r.Writes), f.Acknowledged)
	require.Len(t, f.Times, 1)
	require.Equal(t, outageTo-outageFrom, f.Times[0].Gap)
	require.Equal(t, delay, f.Times[0].Resumed)
	require.Equal(t, delay, f.Times[0].Slowest)
}

func TestCheck_FindsALostAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{true, false} {
		r := healthy(sync)
		r.Rows, r.Runs = r.Rows[1:], r.Runs[1:]
		require.Equal(t, []string{"0"}, Check(r).Lost)
		if sync {
			require.Equal(t, []string{"execution 0: acknowledged by a synchronous cluster and lost"}, check(r))
		} else {
			require.Empty(t, check(r), "an asynchronous standby may lack it")
		}
	}
}

func TestCheck_FindsAStartedItemThatIsLost(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	r.Rows = r.Rows[1:]
	require.Equal(t, []string{"execution 0: acknowledged by a synchronous cluster, started and lost"}, check(r))
	require.Empty(t, Check(r).Lost)

	r.Writes[0].Acknowledged = time.Time{}
	require.Empty(t, check(r), "nobody was promised anything")
	require.Equal(t, []string{"0"}, Check(r).Rewound)
	require.Equal(t, 1, Check(r).Unknown)
}

func TestCheck_FindsASecondRun(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{true, false} {
		r := healthy(sync)
		r.Runs = append(r.Runs, r.Runs[3])
		require.Equal(t, []string{"execution 3: started twice"}, check(r))
	}
}

func TestCheck_FindsAnItemThatNeverStarted(t *testing.T) {
	t.Parallel()
	r := healthy(false)
	r.Runs = r.Runs[2:]
	require.Equal(t, []string{"2 executions, such as 0: in the database and never started"}, check(r))

	r.Writes[0].Acknowledged, r.Writes[1].Acknowledged = time.Time{}, time.Time{}
	require.NotEmpty(t, check(r), "although nobody knows that they were committed")
}

func TestCheck_FindsARunThatNobodyWrote(t *testing.T) {
	t.Parallel()
	r := healthy(false)
	r.Runs = append(r.Runs, Run{"stranger", begin})
	require.Equal(t, []string{"execution stranger: started although nobody wrote it"}, check(r))
}

func TestCheck_FindsALateResumption(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	for n := back(r); n < len(r.Runs); n++ {
		r.Runs[n].Started = r.Runs[n].Started.Add(2 * time.Second)
	}
	require.Equal(t, 2*time.Second+delay, Check(r).Times[0].Resumed)
	require.Contains(t, check(r), "failover at 12:00:02: starts resumed 2.03s after acknowledgements did, later than 1s")
}

func TestCheck_FindsThatNothingStartsAnyMore(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	r.Runs = r.Runs[:back(r)]
	require.Contains(t, check(r), "failover at 12:00:02: nothing started that was acknowledged after it")
}

// One item that starts in time must not hide that all others wait for a lease to end.
func TestCheck_FindsASilenceAfterTheFirstStart(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	for n := back(r) + 1; n < len(r.Runs); n++ {
		r.Runs[n].Started = begin.Add(length)
	}
	require.Equal(t, delay, Check(r).Times[0].Resumed)
	require.Equal(t, []string{
		"failover at 12:00:02: acknowledgements flowed for 3.87s and nothing started, longer than 1s"}, check(r))
}

func TestCheck_DoesNotCountTheOutageAsASlowStart(t *testing.T) {
	t.Parallel()
	r := healthy(true)
	r.Events[0].Begin = begin
	last := back(r) - 1
	r.Runs[last].Started = begin.Add(outageTo + 2*delay)
	require.Equal(t, 2*delay, Check(r).Times[0].Slowest)
	require.Empty(t, check(r))
}
