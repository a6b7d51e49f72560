package sqltest

import "syscall"

// dieWithParent makes the kernel send SIGQUIT to the process when the thread that started it ends. SIGQUIT is
// Postgres's immediate shutdown, which also ends its child processes.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// freeBytes returns how many bytes can be written below a directory. It is 0 if that is not known.
func freeBytes(dir string) uint64 {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil || stat.Bsize < 0 {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}
