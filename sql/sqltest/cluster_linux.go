package sqltest

import "syscall"

// dieWithParent makes the kernel send SIGQUIT to the process when the thread that started it ends. SIGQUIT is
// Postgres's immediate shutdown, which also ends its child processes.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
