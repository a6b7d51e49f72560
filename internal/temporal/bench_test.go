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

// BenchmarkStart measures a start through Temporal's client over a connection, including the server's side.
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
