// Package raced tells tests whether they run under the race detector, which makes them five to ten times slower. One
// that repeats the same many times does a part of that there. make test does all of it without the detector, too.
package raced
