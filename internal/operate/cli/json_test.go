package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestJSONOfDeepParamsIsNotMuchLargerThanTheyAre(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	var out bytes.Buffer
	require.NoError(t, (&App{Stdout: &out}).printJSON(map[string]any{"params": json.RawMessage(deep)}))
	require.Less(t, out.Len(), 2*len(deep))
	require.True(t, json.Valid(out.Bytes()))
}

// keysOf adds the keys of a type's JSON that are not in snake_case.
func keysOf(t reflect.Type, seen map[reflect.Type]bool, bad *[]string) {
	switch {
	case t.Implements(reflect.TypeFor[json.Marshaler]()), t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		keysOf(t.Elem(), seen, bad)
		return
	case t.Kind() != reflect.Struct, seen[t]:
		return
	}
	seen[t] = true
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		if !field.Anonymous && !regexp.MustCompile("^[a-z][a-z0-9_]*$").MatchString(name) {
			*bad = append(*bad, t.String()+"."+field.Name)
		}
		keysOf(field.Type, seen, bad)
	}
}

func TestTheKeysOfJSONAreInOneCase(t *testing.T) {
	t.Parallel()
	bad := []string{}
	for _, printed := range []any{status{}, operate.Item{}, history{}, executionJSON{}, operate.WorkspaceDetail{},
		operate.Definition{}, operate.KeyLimit{}, operate.Administered{}, operate.Signal{}, operate.Enqueued{},
		bulkResult{}, outcome{}} {
		keysOf(reflect.TypeOf(printed), map[reflect.Type]bool{}, &bad)
	}
	require.Empty(t, bad)
}
