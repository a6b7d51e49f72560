package sqltest

import "syscall"

// dieWithParent makes the kernel stop the process at once when the thread that started it ends.
// SIGQUIT is Postgres's immediate shutdown: it takes its own children along.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
