package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A value is taken, or refused by an error that names its variable.
func FuzzConfiguration(f *testing.F) {
	for n := range RunOptions {
		for _, value := range []string{"", " ", "0", "-1", "1", "true", "10s", "1e9", "99999999999999999999", "a:b", ":0",
			"http://", "https://a/b?c#d", "postgres://a@b/c", "default,other", "\x00", "é", "/etc/none"} {
			f.Add(uint8(n), value)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, value string) {
		o := RunOptions[int(n)%len(RunOptions)]
		if _, err := readRunConfig(t, map[string]string{o.Variable: value}); err != nil {
			require.ErrorContains(t, err, o.Variable)
		}
	})
}
