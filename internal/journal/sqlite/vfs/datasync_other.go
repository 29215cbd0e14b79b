//go:build !linux

package vfs

// Writer returns the name of the virtual file system to write a database with; empty: SQLite's default one.
func Writer() string { return "" }
