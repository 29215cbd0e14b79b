// Package policy decides how long work may take and how often it is tried. [Retry] and [Limit] hold the settings;
// [Judge] is the one function that decides what follows when an attempt ends badly.
//
// The package is pure: it reads no clock, draws no random numbers and keeps no state. Instants and random numbers are
// arguments, so a preview, a replay and a real run give the same answers.
package policy
