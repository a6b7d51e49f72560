package demo

import "syscall"

// dieWithParent makes the kernel kill the process when the thread that started it ends. It is killed
// outright: its database dies at the same moment, so it could put nothing in order.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
