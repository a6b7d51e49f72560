package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
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

// The ports from which FreePort chooses are below those that Linux gives to outgoing connections, from 32768. A server
// that is restarted on its port would otherwise find one of them there.
const lowestPort, highestPort = 15000, 32000

// portTries is how many ports FreePort tries.
const portTries = 100

// FreePort returns a TCP port of host that was free a moment ago, and that no outgoing connection takes.
func FreePort(host string) (port int, err error) {
	for range portTries {
		port = lowestPort + rand.IntN(highestPort-lowestPort)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			err = listener.Close()
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}

// FreeAddress returns an address of this machine's loopback interface that was free a moment ago.
func FreeAddress() (string, error) {
	port, err := FreePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
