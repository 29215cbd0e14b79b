package vfs

import (
	"sync"
	"unsafe"
)

// At turns an address in SQLite's memory, which is not Go's, into a pointer.
func At(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// Pointer returns what SQLite takes as a pointer to a function: the first word of a structure that holds only the
// function.
func Pointer[F any](f F) uintptr {
	kept.Store(&f, nil)
	return *(*uintptr)(unsafe.Pointer(&f))
}

// kept are the functions that SQLite has pointers to. Go does not see that SQLite's memory points to them.
var kept sync.Map

// Call returns the function behind such a pointer.
func Call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }
