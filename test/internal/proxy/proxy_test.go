package proxy

import (
	"bufio"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server that returns each line.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadBytes('\n')
					if err != nil {
						return
					}
					_, _ = conn.Write(line)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// greeting is the first message of a Postgres session, with a line's end so that the server answers it.
func greeting(name string) []byte {
	text := append([]byte{0, 3, 0, 0}, "user\x00postgres\x00application_name\x00"+name+"\x00\x00\n"...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text)+4)), text...)
}

// session is a client that has sent its greeting.
type session struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *TCP, name string) *session {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &session{t, conn, bufio.NewReader(conn)}
	_, err = conn.Write(greeting(name))
	require.NoError(t, err)
	_, err = s.lines.ReadBytes('\n')
	require.NoError(t, err)
	return s
}

func (s *session) say(text string) {
	s.t.Helper()
	_, err := s.conn.Write([]byte(text + "\n"))
	require.NoError(s.t, err)
}

// hears waits for a line; "": none came, because of silence or because the connection ended.
func (s *session) hears(within time.Duration) string {
	s.t.Helper()
	require.NoError(s.t, s.conn.SetReadDeadline(time.Now().Add(within)))
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return ""
	}
	return line[:len(line)-1]
}

const (
	soon    = 5 * time.Second
	silence = 100 * time.Millisecond
)

func newTCP(t *testing.T) *TCP {
	t.Helper()
	p, err := NewTCP(echo(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestAHoleHoldsBackAndDeliversWhenItEnds(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	s := dial(t, p, "one")
	p.Set(Policy{Hole: true})
	s.say("held")
	require.Empty(t, s.hears(silence))
	p.Set(Policy{})
	require.Equal(t, "held", s.hears(soon))
}

func TestAHoleMaySwallowSomeSessionsOnly(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	listener, other := dial(t, p, "pgdispatch listener"), dial(t, p, "pgdispatch")
	p.Set(Policy{Hole: true, Label: "listener", Present: true})
	listener.say("held")
	other.say("passes")
	require.Equal(t, "passes", other.hears(soon))
	require.Empty(t, listener.hears(silence))
	again := dial(t, p, "pgdispatch listener")
	again.say("passes")
	require.Equal(t, "passes", again.hears(soon), "it connected after the policy was set")
}

func TestOneAnswerIsSwallowedAndTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	s, spared := dial(t, p, "pgdispatch"), dial(t, p, "pgdispatch gate")
	p.Set(Policy{DropReplies: 1, Label: "pgdispatch", Except: "pgdispatch "})
	spared.say("spared")
	require.Equal(t, "spared", spared.hears(soon))
	s.say("done")
	require.Empty(t, s.hears(soon))
	require.Equal(t, 1, p.Dropped())
	again := dial(t, p, "pgdispatch")
	again.say("again")
	require.Equal(t, "again", again.hears(soon), "one answer was dropped")
}

func TestAShortAnswerIsNotSwallowedWhereALongOneIsWanted(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	s := dial(t, p, "pgdispatch")
	p.Set(Policy{DropReplies: 1, DropFrom: 10})
	s.say("short")
	require.Equal(t, "short", s.hears(soon))
	s.say("long enough")
	require.Empty(t, s.hears(soon))
	require.Equal(t, 1, p.Dropped())
}

func TestAnAddressThatRefusesCutsAndIsOpenAgain(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	s := dial(t, p, "one")
	p.Set(Policy{Refuse: true})
	require.Empty(t, s.hears(soon))
	p.Set(Policy{})
	p.SetTarget(echo(t))
	s = dial(t, p, "one")
	s.say("elsewhere")
	require.Equal(t, "elsewhere", s.hears(soon))
}

func TestSlicesAndDelaysChangeNothingOfWhatIsSaid(t *testing.T) {
	t.Parallel()
	p := newTCP(t)
	s := dial(t, p, "one")
	p.Set(Policy{Slice: 1, Delay: time.Millisecond, Jitter: time.Millisecond})
	s.say("piece by piece")
	require.Equal(t, "piece by piece", s.hears(soon))
}

func TestASessionSaysItsName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "pgdispatch listener", applicationName(greeting("pgdispatch listener")))
	require.Empty(t, applicationName([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	require.Empty(t, applicationName([]byte{0, 0}))
}
