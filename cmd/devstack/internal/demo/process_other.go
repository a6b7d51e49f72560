//go:build !linux

package demo

import "syscall"

// dieWithParent does nothing where there is no parent death signal.
func dieWithParent(*syscall.SysProcAttr) {}
