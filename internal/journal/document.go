package journal

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Document is a value that is stored under a key, beside the runs. Parts of Pawl store data in documents that belongs
// to no run, such as webhooks and their deliveries.
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
	// their keys, which are compared byte by byte, or with last the last ones, the last of all first. The prefix of
	// keys below a key is key + "\x00", which no key contains.
	FindDocuments(ctx context.Context, from, before string, last bool, limit int) ([]Document, error)
	// ReadDocuments returns the existing documents with these keys, in the order of the keys.
	ReadDocuments(ctx context.Context, keys ...string) ([]Document, error)
}

// ofPartition is the first part of the keys of documents that belong to a partition. They are written by its owner,
// with batches, and are stored where the partition is.
const ofPartition = "partitions/"

// OfPartition returns the beginning of the keys of a partition's documents.
func OfPartition(partition int) string { return fmt.Sprintf("%s%d/", ofPartition, partition) }

// PartitionOf returns the partition that a document belongs to, or false if it belongs to none.
func PartitionOf(key string) (partition int, ok bool) {
	rest, ok := strings.CutPrefix(key, ofPartition)
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "/")
	partition, err := strconv.Atoi(number)
	return partition, err == nil
}
