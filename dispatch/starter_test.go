package dispatch

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStartCarriesEverythingThatTheItemHas(t *testing.T) {
	t.Parallel()
	item := benchItem(time.Hour)
	item.Traceparent, item.Unanswered, item.UnansweredFor = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		true, time.Second
	start := reflect.ValueOf(requestOf(item))
	for n := range start.NumField() {
		require.False(t, start.Field(n).IsZero(), start.Type().Field(n).Name)
	}
}
