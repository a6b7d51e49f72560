// Package attempt has what loops need that try again: a backoff, errors instead of panics, and complaints that are not
// repeated.
package attempt

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sethvargo/go-retry"
)

// jitterPercent keeps replicas and items that failed together from trying again together.
const jitterPercent = 20

// Backoff returns a pause that doubles from base up to longest, with jitter. It is stateful: each use needs its own.
func Backoff(base, longest time.Duration) retry.Backoff {
	return retry.WithJitterPercent(jitterPercent, retry.WithCappedDuration(longest, retry.NewExponential(base)))
}

// PanicError is a panic that Contain has caught.
type PanicError struct {
	// Value is the argument of the call of panic.
	Value any
	// Stack is where it was called.
	Stack string
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Contain calls try and returns its error. A panic becomes a *PanicError, so that no part of a replica ends while the
// others continue without it.
func Contain(ctx context.Context, try func(context.Context) error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = &PanicError{recovered, string(debug.Stack())}
		}
	}()
	return try(ctx)
}

// Complaint remembers the error that a loop has logged last, so that it logs each only once. The zero value has logged
// none. It is not safe for concurrent use.
type Complaint struct{ last string }

// IsNew reports whether err differs from the last one, and remembers it.
func (c *Complaint) IsNew(err error) bool {
	text := err.Error()
	isNew := text != c.last
	c.last = text
	return isNew
}

// Over forgets the last error: the next one is new.
func (c *Complaint) Over() { c.last = "" }
