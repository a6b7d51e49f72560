package lab

import "syscall"

// dieWithParent makes the kernel kill the process when the bench ends, however it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
