// Package vfs stands between SQLite, which was translated to Go, and the files of the system.
package vfs
