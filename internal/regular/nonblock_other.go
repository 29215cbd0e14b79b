//go:build !unix

package regular

// nonblock is 0: no file keeps this system waiting.
const nonblock = 0
