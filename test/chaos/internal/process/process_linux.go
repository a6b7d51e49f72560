package process

import "syscall"

// dieWithParent makes the kernel signal the process when the harness ends, however it ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
