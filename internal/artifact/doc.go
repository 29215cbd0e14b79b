// Package artifact keeps files that steps make, with their runs.
//
// A [Store] keeps each content once, under its SHA-256, and for each attempt a list of its files. Content and lists are
// objects of a [Bucket]: a folder, or a bucket of S3 (package s3). The list is written last, and an attempt reports its
// end after that: what a run refers to is there, however the process dies.
//
// Files are read and written below one folder. A path that leads out of it, by .. or by a symbolic link, is refused.
package artifact
