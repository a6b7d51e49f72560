package cli

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/pgdispatch/pgdispatch/internal/process"
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

func TestDoctorsVerdictIsTheWorstFinding(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		severities []doctor.Severity
		strict     bool
		want       int
	}{
		{[]doctor.Severity{doctor.Fine}, true, 0}, {[]doctor.Severity{doctor.Fine, doctor.Warning}, false, 0},
		{[]doctor.Severity{doctor.Fine, doctor.Warning}, true, exitProblems},
		{[]doctor.Severity{doctor.Unknown, doctor.Warning}, false, exitUnknown},
		{[]doctor.Severity{doctor.Unknown, doctor.Problem}, false, exitProblems},
	} {
		findings := []doctor.Finding{}
		for _, s := range row.severities {
			findings = append(findings, doctor.Finding{Severity: s})
		}
		code := 0
		if err := verdict(findings, row.strict); err != nil {
			code = codeOf(err)
		}
		require.Equal(t, row.want, code, "%v", row)
	}
}

func TestProgressIsABarOnATerminalAndLinesOtherwise(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			m := &meter{out: &out, terminal: terminal, size: 100, started: time.Now(), shown: time.Now()}
			must.Get(io.CopyN(io.Discard, m.reads(strings.NewReader(strings.Repeat("x", 100))), 50)).In(t)
			m.show(10)
			require.Empty(t, out.String(), "progress is not printed for each batch")
			time.Sleep(10 * time.Second)
			m.show(12000)
			m.show(12500)
			m.clear()
			if !terminal {
				require.Equal(t, "12,000 items, 1200/s\n", out.String())
				return
			}
			require.Equal(t, "\r"+strings.Repeat("█", 15)+strings.Repeat("░",
				15)+"  50 %  12,000 items, 1200/s\x1b[K\r\x1b[K", out.String())
		})
	}
}

// fakeView gives preset answers.
type fakeView struct {
	mu      sync.Mutex
	waiting int64
	err     error
}

func (f *fakeView) set(waiting int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.err = waiting, err
}

func (f *fakeView) Overview(context.Context) (operate.Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return operate.Overview{Depth: operate.Depth{Pending: f.waiting}}, f.err
}

func (f *fakeView) ListWorkspaces(context.Context, string, operate.WorkspaceOrder, *operate.WorkspaceKey,
	int) ([]operate.WorkspaceRow, error) {
	return nil, nil
}

func TestAWatchThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	w := &watcher{Store: &fakeView{err: errors.New("no such database")}, Interval: time.Second}
	require.ErrorContains(t, w.Append(t.Context(), io.Discard), "no such database")
	require.ErrorContains(t, w.Draw(t.Context(), nil, nil, nil), "no such database")
}

func TestAWatchWithoutATerminalWritesBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, out := &fakeView{}, &process.Buffer{}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		time.AfterFunc(1500*time.Millisecond, func() { fake.set(0, errors.New("the database is away")) })
		require.NoError(t, (&watcher{Store: fake, Interval: time.Second}).Append(ctx, out))
		require.Equal(t, 3, strings.Count(out.String(), "WORKSPACE"))
		require.Equal(t, 1, strings.Count(out.String(), "the database is away"))
		require.NotContains(t, out.String(), "\x1b")
	})
}
