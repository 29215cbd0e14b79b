package ignore

import (
	"time"

	"github.com/pawl-dev/pawl"
)

func body(ctx pawl.Context, _ string) (time.Time, error) {
	_ = time.Now() //pawlvet:ignore the log shows when the body was called
	//pawlvet:ignore the log shows when the body was called
	_ = time.Now()
	_ = time.Now() // want `time.Now in`
	_ = time.Now() /* want `time.Now in` `//pawlvet:ignore has no reason, so it ignores nothing` */ //pawlvet:ignore
	_ = time.Now() /* want `time.Now in` */                                                         //pawlvet:ignored is another word
	_ = time.Now() //pawlvet:ignore only its own line
	_ = time.Now() // want `time.Now in`
	return pawl.Now(ctx), nil
}
