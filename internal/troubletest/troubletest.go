// Package troubletest lets every call that a component makes fail once. What follows an error is where mistakes stay
// longest: a test that names the call misses those that nobody thought of.
package troubletest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// Trouble is what happens to one call.
type Trouble string

// Troubles that any call may meet. A test may have others.
const (
	None       Trouble = ""
	Unsent     Trouble = "it fails before its effect"
	Unanswered Trouble = "it fails after its effect"
)

// Err is the error of a call in trouble.
var Err = errors.New("connection reset")

// Calls are the calls that a component makes to its fakes. One of them meets a trouble.
type Calls struct {
	mu   sync.Mutex
	nth  int // from 1; 0: none
	what Trouble
	made []string
	over bool
}

// Meet counts a call, and returns the trouble that it meets.
func (c *Calls) Meet(call string) Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return None
	}
	if c.made = append(c.made, call); len(c.made) == c.nth {
		return c.what
	}
	return None
}

// Troubled returns the call that has met the trouble, or "".
func (c *Calls) Troubled() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nth == 0 || len(c.made) < c.nth {
		return ""
	}
	return c.made[c.nth-1]
}

// Over ends the calls that are counted: the component has done its work.
func (c *Calls) Over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// Do is for a fake whose effect returns nothing: it has the effect unless the call fails before, and returns Err if it
// fails.
func (c *Calls) Do(call string, effect func()) error {
	met := c.Meet(call)
	if met != Unsent {
		effect()
	}
	if met != None {
		return Err
	}
	return nil
}

// Each runs a component once without trouble, and then once for each of its calls with each trouble: with those that
// any call may meet, and more. Each run has a bubble of synctest. The function checks that the component reaches the
// same end.
func Each(t *testing.T, run func(t *testing.T, calls *Calls), more ...Trouble) {
	t.Helper()
	var calm Calls
	synctest.Test(t, func(t *testing.T) { run(t, &calm) })
	if len(calm.made) == 0 {
		t.Fatal("the component makes no call")
	}
	for _, what := range append([]Trouble{Unsent, Unanswered}, more...) {
		for n, call := range calm.made {
			t.Run(fmt.Sprintf("%d %s/%s", n+1, call, what), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { run(t, &Calls{nth: n + 1, what: what}) })
			})
		}
	}
}
