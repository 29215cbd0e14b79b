// Package s3 keeps artifacts in a bucket of S3, or of a server that speaks as S3 does.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawl-dev/pawl/internal/artifact"
)

// Bucket is a bucket of S3.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string // ends with a slash
}

var _ artifact.Bucket = (*Bucket)(nil)

// keys are the parameters that an address may have.
var keys = map[string]bool{"endpoint": true, "region": true, "path-style": true}

// Open returns the bucket of an address such as s3://bucket/prefix?endpoint=http://127.0.0.1:7070&region=eu-central-1.
// Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from ~/.aws/credentials, or from the machine. The
// objects of a namespace have a prefix of their own.
func Open(ctx context.Context, address, namespace string) (*Bucket, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "s3" {
		return nil, fmt.Errorf("%q is not an address; write s3://BUCKET/PREFIX", address)
	}
	q := u.Query()
	for key := range q {
		if !keys[key] {
			return nil, fmt.Errorf("the address has no key %q; known are endpoint, region, path-style", key)
		}
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix == "" {
		return nil, errors.New("the address has no prefix; write s3://BUCKET/PREFIX, with another prefix for each " +
			"database")
	}
	if namespace != "" {
		prefix += "/namespaces/" + namespace
	}
	endpoint := "https://s3.amazonaws.com"
	if q.Get("endpoint") != "" {
		endpoint = q.Get("endpoint")
	}
	e, err := url.Parse(endpoint)
	if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
		return nil, fmt.Errorf("the endpoint %q is not an address; write https://HOST:PORT", endpoint)
	}
	lookup := minio.BucketLookupAuto
	if q.Get("path-style") == "true" {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(e.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: e.Scheme == "https", Region: q.Get("region"), BucketLookup: lookup,
	})
	if err != nil {
		return nil, err
	}
	there, err := client.BucketExists(ctx, u.Host)
	if err != nil {
		return nil, fmt.Errorf("bucket %s at %s: %w", u.Host, e.Host, err)
	}
	if !there {
		return nil, fmt.Errorf("there is no bucket %s at %s; make it first", u.Host, e.Host)
	}
	return &Bucket{client, u.Host, prefix + "/"}, nil
}

func (b *Bucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, r, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream",
	})
	return err
}

// Renew implements artifact.Bucket: an object becomes young again only when it is put again.
func (b *Bucket) Renew(context.Context, string) (bool, error) { return false, nil }

func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, missing(err)
	}
	if _, err := o.Stat(); err != nil { // the request is made here
		return nil, errors.Join(missing(err), o.Close())
	}
	return o, nil
}

func missing(err error) error {
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

func (b *Bucket) List(ctx context.Context, prefix string, yield func(artifact.Object) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing when yield has had enough
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{
		Prefix: b.prefix + prefix, Recursive: true,
	}) {
		if o.Err != nil {
			return o.Err
		}
		key := strings.TrimPrefix(o.Key, b.prefix)
		if err := yield(artifact.Object{Key: key, Modified: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// RemoveOlder implements artifact.Bucket. Another process may put the object between the check and the removal: content
// is therefore removed only an hour after it was put.
func (b *Bucket) RemoveOlder(ctx context.Context, key string, than time.Time) error {
	info, err := b.client.StatObject(ctx, b.name, b.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		if err = missing(err); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if info.LastModified.After(than) {
		return nil
	}
	return b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{})
}
