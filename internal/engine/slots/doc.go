// Package slots counts the workers of a process: which of them have room for an attempt, and which partition is next.
// It separates suspects, which are attempts that may kill their process. It knows neither runs nor partitions, only
// clients.
package slots
