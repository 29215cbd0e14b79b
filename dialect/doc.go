// Package dialect is what the folders of other workflow systems have in common. Each folder holds one system: its
// policies, its documents where they become flows, and its options for Go programs.
//
// A translated policy behaves as its system's documentation says without any further support: one state machine runs
// them all. The Origin of every limit is the name of the field that set it, so a timeout is reported in the words of
// its author.
package dialect
