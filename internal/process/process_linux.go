package process

import "syscall"

// dieWithParent makes the kernel signal the process when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
