// Package options reads what Temporal and Zart take at a call: a Temporal activity's and workflow's options, a Zart step's
// and handler's attributes. Flow files and Go programs that hold them share this reading.
//
// Every limit's and retry policy's Origin is the name of the field that set it.
package options
