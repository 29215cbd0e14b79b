// Package policy defines how long work may take and how often it is tried: [Limit] and [Retry] are the settings, a
// [Failure] is why an attempt did not succeed, a [Reason] why no other one follows, and [QueueLimits] limit whatever
// shares a queue or a service.
//
// The package is pure: it reads no clock, draws no random numbers and keeps no state.
package policy
