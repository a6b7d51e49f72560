package postgres

import (
	"fmt"
	"syscall"
)

func mountMemory(dir string, bytes int) error {
	return syscall.Mount("chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes))
}

func unmount(dir string) error {
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
