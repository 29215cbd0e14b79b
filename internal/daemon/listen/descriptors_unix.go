//go:build unix

package listen

import "golang.org/x/sys/unix"

// descriptors returns how many file descriptors this process may have; 0: nobody knows.
func descriptors() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // FreeBSD has an int64
}
