//go:build unix

package listen

import "golang.org/x/sys/unix"

// descriptors returns how many file descriptors this process may have, or 0 if that is unknown.
func descriptors() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // FreeBSD has an int64
}
