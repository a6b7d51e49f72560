package demo

import "syscall"

// dieWithParent makes the kernel kill the process when the thread that started it ends. SIGKILL is right because the
// process's database dies at the same moment, so a graceful shutdown could not complete anything.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
