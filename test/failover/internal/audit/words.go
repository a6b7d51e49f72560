package audit

import (
	"fmt"
	"time"
)

// violation describes executions to which something happened.
func violation(executions []string, what string) []string {
	switch len(executions) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("execution %s: %s", executions[0], what)}
	}
	return []string{fmt.Sprintf("%d executions, such as %s: %s", len(executions), executions[0], what)}
}

func (t Times) violations(limit time.Duration) (list []string) {
	at := t.Begin.Format(time.TimeOnly)
	if t.Never {
		return []string{fmt.Sprintf("%s at %s: nothing started that was acknowledged after it", t.Kind, at)}
	}
	if t.Resumed > limit {
		list = append(list, fmt.Sprintf("%s at %s: starts resumed %s after acknowledgements did, later than %s",
			t.Kind, at, t.Resumed.Round(time.Millisecond), limit))
	}
	if t.Silence > limit {
		list = append(list, fmt.Sprintf("%s at %s: acknowledgements flowed for %s and nothing started, longer than %s",
			t.Kind, at, t.Silence.Round(time.Millisecond), limit))
	}
	return list
}
