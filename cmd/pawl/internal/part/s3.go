//go:build !small

package part

import (
	"context"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/artifact/s3"
)

func init() {
	OpenBucket = func(ctx context.Context, address, namespace string) (artifact.Bucket, error) {
		return s3.Open(ctx, address, namespace)
	}
}
