package lab

import "syscall"

// dieWithParent makes the kernel kill the process when the bench ends, for whatever reason.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
