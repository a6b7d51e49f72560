// Package codectest has a codec server for tests. It encrypts payloads as Temporal's public sample does.
package codectest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Encoding is that of encrypted payloads.
const Encoding = "binary/encrypted"

// Codec encrypts payloads with AES-GCM and a fresh nonce, so that a repeated payload has another text.
type Codec struct{ aead cipher.AEAD }

// NewCodec returns a codec with a fresh key.
func NewCodec() Codec {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return Codec{aead}
}

// Encode implements converter.PayloadCodec.
func (c Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, c.aead.NonceSize())
		_, _ = rand.Read(nonce)
		return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(Encoding)},
			Data: c.aead.Seal(nonce, nonce, plain, nil)}, nil
	})
}

// Decode implements converter.PayloadCodec. Like every codec, it leaves payloads alone that it has not encoded.
func (c Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		if string(p.GetMetadata()["encoding"]) != Encoding {
			return p, nil
		}
		if len(p.GetData()) < c.aead.NonceSize() {
			return nil, errors.New("payload is too short")
		}
		nonce, sealed := p.GetData()[:c.aead.NonceSize()], p.GetData()[c.aead.NonceSize():]
		plain, err := c.aead.Open(nil, nonce, sealed, nil)
		if err != nil {
			return nil, fmt.Errorf("decrypt payload: %w", err)
		}
		decoded := &commonpb.Payload{}
		return decoded, proto.Unmarshal(plain, decoded)
	})
}

func each(payloads []*commonpb.Payload,
	do func(*commonpb.Payload) (*commonpb.Payload, error)) (all []*commonpb.Payload, err error) {
	for _, p := range payloads {
		done, err := do(p)
		if err != nil {
			return nil, err
		}
		all = append(all, done)
	}
	return all, nil
}

// Server is a codec server. Close it after use.
type Server struct {
	*httptest.Server
	Codec Codec

	mu    sync.Mutex
	calls []Call
	fails func(Call) int
}

// Call is a request to the server.
type Call struct {
	Operation     string // encode or decode
	Namespace     string
	Authorization string
	Bytes         int64 // of the request
}

// NewServer starts a server, with TLS or without.
func NewServer(withTLS bool) *Server {
	s := &Server{Codec: NewCodec()}
	codec := converter.NewPayloadCodecHTTPHandler(s.Codec)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := Call{r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], r.Header.Get("X-Namespace"),
			r.Header.Get("Authorization"), r.ContentLength}
		if status := s.called(call); status != 0 {
			w.WriteHeader(status)
			return
		}
		codec.ServeHTTP(w, r)
	}))
	if withTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

func (s *Server) called(call Call) (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if s.fails != nil {
		return s.fails(call)
	}
	return 0
}

// Fail makes the server answer calls with the status that fails returns, if that is not 0. Nil ends that.
func (s *Server) Fail(fails func(Call) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// Calls returns the requests so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}
