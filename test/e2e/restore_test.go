package e2e

import (
	"context"
	"net/url"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// backUp copies the database while no replica runs, and returns the copy's URL.
func (s *stack) backUp() string {
	s.t.Helper()
	source, err := url.Parse(s.url)
	require.NoError(s.t, err)
	name := source.Path[1:]
	server, restored := *source, *source
	server.Path, restored.Path = "/postgres", "/"+name+"_restored"
	db := sqltest.Pool(s.t, server.String())
	s.eventually(func() bool {
		s.db.Reset() // a template may have no other sessions
		_, err := db.Exec(context.Background(), "create database "+name+"_restored template "+name)
		return err == nil
	}, "the database is copied")
	return restored.String()
}

// Tests the claims of docs/recovery.md on a database restored to an earlier point while Temporal continued.
func TestARestoredDatabaseStartsNothingASecondTime(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	stop := func(p *replica) {
		require.NoError(t, p.Signal(syscall.SIGTERM))
		require.Zero(t, p.exit())
	}
	first := s.replica().ready()
	held := s.enqueue("PRO", "Hold", 3)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 3 }, "three run at the backup")
	stop(first)
	waiting := append(s.enqueue("ENTERPRISE", "Echo", 8), s.enqueue("FREE", "Again", 1)...)
	cancelled := s.enqueue("ENTERPRISE", "Echo", 1)
	var ids []string // of their own: Temporal will not recognise the repeated starts
	for _, policy := range []string{"reuse", "use_existing"} {
		s.workspace[policy] = s.addWorkspace("FREE")
		ids = append(ids, "restored-"+uuid.NewString())
		s.enqueueAs(policy, "Again", ids[len(ids)-1])
	}
	backup := s.backUp()

	s.exec("select pgdispatch.cancel($1::uuid)", cancelled[0])
	second := s.replica().ready()
	lost := s.enqueue("ENTERPRISE", "Echo", 2)
	s.signal(held...)
	s.eventually(func() bool {
		return s.count("status in ('PENDING', 'CLAIMED', 'DISPATCHED')") == 0
	}, "all executions end after the backup")
	stop(second)

	s.url, s.db = backup, sqltest.Pool(t, backup)
	s.exec("delete from pgdispatch.epoch")
	require.Equal(t, 12, s.count("status = 'PENDING'"))
	third := s.replica()
	s.eventually(func() bool { return third.has("Waiting for an operator: the database is a copy") }, "it waits in a copy")
	require.Equal(t, 12, s.count("status = 'PENDING'"))
	_, errs, code := (&desk{t: t, url: backup}).tries("migrate", "adopt")
	require.Zero(t, code, errs)
	third.ready()
	s.eventually(func() bool {
		return s.count("status in ('PENDING', 'CLAIMED', 'DISPATCHED')") == 0
	}, "all executions have ended, as before the restore")
	require.Equal(t, 3, s.count("status = 'FAILED'"), "the executions that continued as new")
	require.Equal(t, 12, s.count("status = 'COMPLETED'"))
	require.Equal(t, "COMPLETED", s.statusOf(cancelled[0]), "the cancellation is lost")
	stop(third)
	s.requireOneRunEach(append(append(held, waiting[:8]...), cancelled...))
	require.Zero(t,
		one[int](s, "select count(*)::int from pgdispatch.workflow_execution_queue where execution_id = any ($1::uuid[])",
			lost))
	s.requireOneRunEach(lost) // pgdispatch does not know it
	for _, id := range append(ids, "execution-"+waiting[8]) {
		s.eventually(func() bool {
			runs, answered := s.listed(" and WorkflowId = '" + id + "'")
			return answered && len(runs) == 2
		}, "the run and its continuation, and no third run")
	}
}
