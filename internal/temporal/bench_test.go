package temporal

import (
	"context"
	"testing"
	"time"
)

func BenchmarkRequest(b *testing.B) {
	client, start := &Client{Namespace: "default", Identity: "pgdispatch@bench"}, anItem()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.request(start); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is a start through Temporal's client and over a connection, with the server's side of it.
func BenchmarkStart(b *testing.B) {
	service := realService(b, func(*startRequest) (*startResponse, error) { return &startResponse{RunId: "run"}, nil })
	s, item := &Client{Service: service, Namespace: "default", Identity: "pgdispatch@bench"}, anItem()
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Start(ctx, item); err != nil {
			b.Fatal(err)
		}
	}
}
