package process

import "syscall"

// dieWithParent makes the kernel signal the process when the harness ends, for whatever reason.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
