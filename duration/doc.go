// Package duration reads and writes amounts of time. Pawl uses this one grammar everywhere: in flow files, in Go, over
// HTTP and on the command line.
//
// A duration is one or more pairs of a number and a unit. Their order does not matter; the amounts are added. White
// space is allowed between pairs, and between a number and its unit:
//
//	5m
//	1d 5h
//	10 days 1hrs 30m 15 secs
//
// The units are
//
//	milliseconds millisecond millis milli ms
//	seconds second secs sec s
//	minutes minute mins min m
//	hours hour hrs hr h
//	days day d
//
// where a day is 24 hours. A number without a unit counts milliseconds, but only if it is the whole text. Signs,
// decimal points and sums that do not fit into a [time.Duration] are errors.
package duration
