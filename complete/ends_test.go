package complete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// register is the store of Ends in a synctest bubble. By default a statement takes a second, and every end is recorded
// for the first time.
type register struct {
	*Ends
	onFinish    func(executionID string) (bool, error)
	onFinishAll func(ends []Ended) (map[string]bool, error)

	takes time.Duration // each statement

	mu         sync.Mutex
	statements []string // the executions of each statement, in order
}

// registerStore is separate from register because Ends also has a method Finish.
type registerStore struct{ *register }

func (s registerStore) Finish(_ context.Context, executionID, outcome, reason, result string) (bool, error) {
	s.begin(executionID)
	if s.onFinish != nil {
		return s.onFinish(executionID)
	}
	return outcome == "COMPLETED" && reason == "" && result == "1", nil
}

func (s registerStore) FinishAll(_ context.Context, ends []Ended) (map[string]bool, error) {
	ids, first := []string{}, map[string]bool{}
	for _, end := range ends {
		ids, first[end.ExecutionID] = append(ids, end.ExecutionID),
			end == Ended{ExecutionID: end.ExecutionID, Outcome: "COMPLETED", Result: "1"}
	}
	slices.Sort(ids)
	s.begin(fmt.Sprint(ids))
	if s.onFinishAll != nil {
		return s.onFinishAll(ends)
	}
	return first, nil
}

// begin records a statement and takes its time.
func (r *register) begin(statement string) {
	r.mu.Lock()
	r.statements = append(r.statements, statement)
	r.mu.Unlock()
	time.Sleep(r.takes)
}

func (r *register) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.statements)
}

// registering runs a test in a bubble with running Ends.
func registering(t *testing.T, test func(t *testing.T, r *register)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &register{takes: time.Second}
		r.Ends = NewEnds(registerStore{r}, nil)
		looptest.Run(t, r.Run)
		test(t, r)
	})
}

// say reports the ends of executions concurrently, and returns where each answer will be stored.
func (r *register) say(t *testing.T, executionIDs ...string) map[string]chan error {
	t.Helper()
	answers := map[string]chan error{}
	for _, id := range executionIDs {
		answer := make(chan error, 1)
		answers[id] = answer
		go func() {
			first, err := r.Ends.Finish(t.Context(), id, "COMPLETED", "", "1")
			if err == nil && !first {
				err = errNotFirst
			}
			answer <- err
		}()
	}
	synctest.Wait()
	return answers
}

var errNotFirst = errors.New("not the first report")

func TestAnEndIsRecordedAtOnceAndThoseThatComeMeanwhileTogether(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.say(t, "a")
		require.Equal(t, []string{"a"}, r.seen(), "the first end is recorded without delay")
		more := r.say(t, "b", "c", "d")
		require.Equal(t, []string{"a"}, r.seen(), "one statement at a time")
		for _, answer := range more {
			require.NoError(t, <-answer)
		}
		require.Equal(t, []string{"a", "[b c d]"}, r.seen())
	})
}

func TestAStatementThatRecordedSeveralEndsIsFollowedByAPauseAsLong(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.takes = 2 * time.Millisecond
		began := time.Now()
		r.say(t, "a")
		r.say(t, "b", "c")
		looptest.Pass(3 * time.Millisecond)
		require.NoError(t, <-r.say(t, "d")["d"])
		require.Equal(t, []string{"a", "[b c]", "d"}, r.seen())
		require.Equal(t, 8*time.Millisecond, time.Since(began), "three statements and a pause of 2 ms")
		require.NoError(t, <-r.say(t, "e")["e"])
		require.Equal(t, 10*time.Millisecond, time.Since(began), "no pause after a single end")
		r.takes = 20 * time.Millisecond
		r.say(t, "f")
		r.say(t, "g", "h")
		looptest.Pass(30 * time.Millisecond)
		require.NoError(t, <-r.say(t, "i")["i"])
		require.Equal(t, 70*time.Millisecond+endRest, time.Since(began), "the pause is bounded")
	})
}

// A statement may wait for a locked row; ends reported in the meantime do not wait.
func TestAStatementThatTakesLongIsNotWaitedFor(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.say(t, "a")
		r.say(t, "c", "d")
		looptest.Pass(endPatience)
		require.Equal(t, []string{"a", "[c d]"}, r.seen())
	})
}

func TestWhatIsLeftIsRecordedByItself(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.onFinishAll = func([]Ended) (map[string]bool, error) { return map[string]bool{"c": true, "d": false}, nil }
		r.onFinish = func(executionID string) (bool, error) {
			if executionID == "e" {
				return false, errors.New("it is locked")
			}
			return true, nil
		}
		r.say(t, "a")
		answers := r.say(t, "c", "d", "e")
		require.NoError(t, <-answers["c"])
		require.ErrorIs(t, <-answers["d"], errNotFirst)
		require.EqualError(t, <-answers["e"], "it is locked")
		require.Equal(t, []string{"a", "[c d e]", "e"}, r.seen())
	})
}

// An end that the database rejects does not block others.
func TestABatchThatFailsIsRecordedOneByOne(t *testing.T) {
	must.Each(t, map[string]func([]Ended) (map[string]bool, error){
		"an error": func([]Ended) (map[string]bool, error) { return nil, errors.New("no such outcome") },
		"a panic":  func([]Ended) (map[string]bool, error) { panic("no such outcome") },
	}, func(t *testing.T, failing func([]Ended) (map[string]bool, error)) {
		registering(t, func(t *testing.T, r *register) {
			r.onFinishAll = failing
			r.onFinish = func(executionID string) (bool, error) {
				if executionID == "d" {
					panic("no such outcome")
				}
				return true, nil
			}
			r.say(t, "a")
			answers := r.say(t, "c", "e")
			require.NoError(t, <-answers["c"])
			require.NoError(t, <-answers["e"])
			require.EqualError(t, <-r.say(t, "d")["d"], "panic: no such outcome")
		})
	})
}

func TestAnEndThatIsSaidTwiceAtOnceIsFirstOnce(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.onFinish = func(executionID string) (bool, error) { return executionID != "c", nil }
		r.say(t, "a")
		once, again := r.say(t, "c"), r.say(t, "c")
		errs := []error{<-once["c"], <-again["c"]}
		require.ElementsMatch(t, []error{nil, errNotFirst}, errs)
		require.ElementsMatch(t, []string{"a", "[c]", "c"}, r.seen())
	})
}

func TestABatchIsBounded(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.say(t, "a")
		ids := make([]string, atMostEnds+50)
		for n := range ids {
			ids[n] = fmt.Sprintf("%03d", n)
		}
		for _, answer := range r.say(t, ids...) {
			require.NoError(t, <-answer)
		}
		require.Len(t, r.seen(), 3)
	})
}

// A cancelled call returns immediately and does not affect others.
func TestWhoIsCancelledCancelsNobodyElse(t *testing.T) {
	registering(t, func(t *testing.T, r *register) {
		r.say(t, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancelled := make(chan error, 1)
		go func() {
			_, err := r.Ends.Finish(ctx, "c", "COMPLETED", "", "1")
			cancelled <- err
		}()
		answers := r.say(t, "d")
		looptest.Pass(500 * time.Millisecond) // their statement is running
		gone := errors.New("the caller is gone")
		cancel(gone)
		require.ErrorIs(t, <-cancelled, gone)
		require.NoError(t, <-answers["d"])
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(gone)
		_, err := NewEnds(nil, nil).Finish(ctx, "e", "COMPLETED", "", "")
		require.ErrorIs(t, err, gone, "Ends does not run")
	})
}

// waiting runs a test in a bubble with running Ends whose statements take no time. Ends of executions named w... may
// wait. stop ends Run.
func waiting(t *testing.T, test func(t *testing.T, r *register, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &register{}
		r.Ends = NewEnds(registerStore{r}, nil)
		r.MayWait = func(executionID string) bool { return executionID[0] == 'w' }
		test(t, r, looptest.Run(t, r.Run))
	})
}

func TestEnds_RecordTogetherWhatNothingWaitsFor(t *testing.T) {
	waiting(t, func(t *testing.T, r *register, _ func()) {
		r.say(t, "w1")
		looptest.Pass(endGather - 2*time.Millisecond)
		answers := r.say(t, "w2", "w3")
		require.Empty(t, r.seen())
		looptest.Pass(2 * time.Millisecond)
		require.Equal(t, []string{"[w1 w2 w3]"}, r.seen(), "counted from the first")
		require.NoError(t, <-answers["w2"])
	})
}

func TestEnds_RecordAtOnceWhatSomethingMayWaitFor(t *testing.T) {
	waiting(t, func(t *testing.T, r *register, _ func()) {
		r.say(t, "w1")
		r.say(t, "a")
		require.Equal(t, []string{"[a w1]"}, r.seen())
		r.say(t, "w2")
		require.Len(t, r.seen(), 1)
		r.Hurry()
		synctest.Wait()
		require.Equal(t, []string{"[a w1]", "w2"}, r.seen(), "something waits now")
		r.Hurry()
		r.say(t, "w3")
		require.Len(t, r.seen(), 2, "a hurry is over once nothing is held back")
	})
}

func TestEnds_RecordWhatWaitedWhenTheyStop(t *testing.T) {
	waiting(t, func(t *testing.T, r *register, stop func()) {
		r.say(t, "w1", "w2")
		require.Empty(t, r.seen())
		stop()
		require.Equal(t, []string{"[w1 w2]"}, r.seen())
	})
}

func TestEnds_HoldBackABoundedNumber(t *testing.T) {
	waiting(t, func(t *testing.T, r *register, _ func()) {
		ids := make([]string, atMostEnds)
		for n := range ids {
			ids[n] = fmt.Sprintf("w%03d", n)
		}
		r.say(t, ids...)
		require.Len(t, r.seen(), 1)
	})
}
