// Package duration reads and writes the one grammar in which Pawl states amounts of time: in flow files, in Go, over
// HTTP and on the command line.
//
// A duration is one or more pairs of a number and a unit, in any order, summed. White space may stand between and
// inside pairs:
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
// where a day is 24 hours. A text that is one bare number counts milliseconds. Numbers are whole: signs and decimal
// points are refused, as is everything that does not fit into a [time.Duration].
package duration
