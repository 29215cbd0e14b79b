package journal

import "context"

// Document is a value that is stored under a key, beside the runs. Parts of Pawl keep in documents what belongs to no
// run, such as webhooks and their deliveries.
type Document struct {
	Key   string // its parts are separated by "/"; the first one names the part of Pawl that it belongs to
	Value []byte // the value to put; nil deletes the document
}

// Documents stores documents.
type Documents interface {
	// PutDocuments stores and deletes documents: all of them or none. It returns when that is durable. Errors: as
	// those of Journal.Append.
	PutDocuments(ctx context.Context, documents ...Document) error
	// FindDocuments returns the documents with from ≤ key < before, at most limit: the first ones in the order of
	// their keys, which are compared byte by byte, or with last the last ones, the last of all first. What follows a
	// key begins with key + "\x00", which no key has in it.
	FindDocuments(ctx context.Context, from, before string, last bool, limit int) ([]Document, error)
	// ReadDocuments returns those of the documents with these keys that there are, in the order of the keys.
	ReadDocuments(ctx context.Context, keys ...string) ([]Document, error)
}
