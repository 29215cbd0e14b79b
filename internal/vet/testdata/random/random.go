package random

import (
	"context"
	crand "crypto/rand"
	"io"
	mrand "math/rand"
	"math/rand/v2"

	"github.com/google/uuid"

	"github.com/pawl-dev/pawl"
)

func body(ctx pawl.Context, in string) (int, error) {
	_ = rand.IntN(6)                      // want `rand.IntN in a workflow's body gives something else .*: use pawl.Random\(ctx\)`
	_ = mrand.Intn(6)                     // want `rand.Intn in`
	_ = crand.Text()                      // want `rand.Text in a workflow's body .*: use pawl.Random\(ctx\), or make a secret in a step`
	_, _ = io.ReadFull(crand.Reader, nil) // want `rand.Reader in`
	_ = uuid.New()                        // want `uuid.New in a workflow's body gives another id .*: use pawl.UUID\(ctx\)`
	_ = uuid.NewString()                  // want `uuid.NewString in`
	_, _ = uuid.NewV7()                   // want `uuid.NewV7 in`

	_ = uuid.NewSHA1(uuid.NameSpaceURL, []byte(in)) // the same each time
	_ = rand.New(rand.NewPCG(1, 2)).IntN(6)
	_ = mrand.New(mrand.NewSource(7)).Intn(6)
	_, _ = pawl.UUID(ctx), pawl.Random(ctx).IntN(6)
	return pawl.Step(ctx, "dice", func(context.Context) (int, error) {
		_, _ = uuid.New(), crand.Text()
		return rand.IntN(6), nil
	})
}
