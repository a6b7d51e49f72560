package process

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// foreign are the prefixes of variables that point a program to a database or a Temporal server, or configure
// pgdispatch.
var foreign = []string{"PG", "TEMPORAL_", "DATABASE_URL="}

// Environment returns this process's environment without what would point a program elsewhere, and with the given
// variables.
func Environment(variables ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
	})
	return append(own, variables...)
}

// FreePort returns a TCP port of host that was free a moment ago.
func FreePort(host string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("release the free port: %w", err)
	}
	return port, nil
}

// FreeAddress returns an address of this machine's loopback interface that was free a moment ago.
func FreeAddress() (string, error) {
	port, err := FreePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
