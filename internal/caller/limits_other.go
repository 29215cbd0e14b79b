//go:build !unix

package caller

// Limits returns nil: this system has no such limits.
func Limits() []string { return nil }

// Wrap returns the command line as it is.
func (c *Caller) Wrap(path string, args []string) (string, []string) { return path, args }
