// Package local says whether traffic stays on this machine, where it needs no encryption.
package local

import (
	"errors"
	"net/netip"
	"strings"
)

// ErrUnverified marks a connection that a man in the middle could read and change.
var ErrUnverified = errors.New("not verified")

// Host reports whether traffic to a host stays on this machine. Names other than localhost are not resolved, because
// another host could answer.
func Host(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // directory of a socket
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
