package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	network "github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// proxy forwards bytes between clients and a server until a test stops it.
type proxy struct {
	*network.TCP
	t testing.TB
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	forwarder, err := network.NewTCP(server)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, forwarder.Close()) })
	return &proxy{forwarder, t}
}

// down cuts all connections and refuses new ones.
func (p *proxy) down() { p.Set(network.Policy{Refuse: true}) }

// up forwards bytes again.
func (p *proxy) up() { p.Set(network.Policy{}) }

// freeze forwards nothing more; connections stay open.
func (p *proxy) freeze() { p.Set(network.Policy{Hole: true}) }
