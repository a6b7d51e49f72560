//go:build !linux

package process

import "syscall"

// dieWithParent does nothing where there is no parent death signal.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
