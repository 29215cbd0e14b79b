// Package limit counts what the limits of queues and services bound: attempts and runs that go on at once, starts in a
// time, retries, and the failures that open a breaker. It knows neither runs nor partitions, only tickets of clients.
package limit
