package duration_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/duration"
)

func Example() {
	d, err := duration.Parse("10h 30 minutes")
	fmt.Println(duration.Format(d), err)
	_, err = duration.Parse("3w")
	fmt.Println(err)
	// Output:
	// 10h30m <nil>
	// duration: unknown unit "w" at position 2 in "3w"; write 21d
}
