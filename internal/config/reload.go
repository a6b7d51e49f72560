package config

import (
	"errors"
	"reflect"
	"slices"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// Reloadable are the options that a running replica can reload.
var Reloadable = []string{"admin-token", "view-token", "log-level"}

// Loaded is a configuration that can be compared with a later one.
type Loaded struct {
	Config
	texts map[string]string // by flag
}

// Load reads and checks the configuration of `run`. It reports all errors at once.
func Load(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) (Loaded, error) {
	l, err := read(flags, lookupEnv, RunOptions)
	return l, errors.Join(err, l.Database.Verify(), l.Check())
}

// Reload returns l with the options of next that are Reloadable, and the flags of those that differ: those that it took
// over, and those that need a restart.
func (l Loaded) Reload(next Loaded) (with Loaded, changed, refused []string) {
	with = Loaded{l.Config, map[string]string{}}
	for _, o := range RunOptions {
		with.texts[o.Flag] = l.texts[o.Flag]
		switch {
		case o.same(l.texts[o.Flag], next.texts[o.Flag]), l.renewsLogin(o, next):
		case !slices.Contains(Reloadable, o.Flag):
			refused = append(refused, o.Flag)
		default:
			changed = append(changed, o.Flag)
			with.texts[o.Flag] = next.texts[o.Flag]
			_ = o.set(&with.Config, next.texts[o.Flag]) // it was read without an error
		}
	}
	return with, changed, refused
}

// renewsLogin reports whether an option is a database's URL in a file of which only user and password have changed.
// Each new connection reads those.
func (l Loaded) renewsLogin(o Option, next Loaded) bool {
	was, is := postgres.Target{URL: l.texts[o.Flag]}, postgres.Target{URL: next.texts[o.Flag]}
	inFile := o.Flag == databaseURL.Flag && l.Database.File != "" ||
		o.Flag == "operator-database-url" && l.OperatorFile != ""
	return inFile && was.Server() == is.Server()
}

// same reports whether two texts mean the same, such as 60s and 1m.
func (o Option) same(a, b string) bool {
	var one, other Config
	_, _ = o.set(&one, a), o.set(&other, b)
	return reflect.DeepEqual(one, other)
}
