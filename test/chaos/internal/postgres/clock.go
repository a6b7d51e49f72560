package postgres

import (
	"errors"
	"fmt"
	"path/filepath"
)

// ErrNotHere means that this machine lacks what a fault needs.
var ErrNotHere = errors.New("not on this machine")

// fakeTime is where packages install the library that gives a program another clock.
const fakeTime = "/usr/lib/*/faketime/libfaketime.so.1"

// clock returns the environment variables that set the server's clock.
func (n *Node) clock() ([]string, error) {
	if n.Clock == 0 {
		return nil, nil
	}
	found, err := filepath.Glob(fakeTime)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("%w: there is no %s: install libfaketime", ErrNotHere, fakeTime)
	}
	return []string{"LD_PRELOAD=" + found[0], fmt.Sprintf("FAKETIME=+%ds", int(n.Clock.Seconds())),
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"}, nil
}
