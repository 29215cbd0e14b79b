package judge_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/pawl-dev/pawl/internal/judge"
)

// TestRandomIsStable holds golden values: a number that changes would move delays that were announced.
func TestRandomIsStable(t *testing.T) {
	run := [16]byte{0: 1, 15: 0xff}
	for _, test := range []struct {
		run     [16]byte
		step    string
		attempt int
		want    string
	}{
		{[16]byte{}, "", 0, "0.427376170855053"},
		{[16]byte{}, "", 1, "0.891174686604350"},
		{run, "charge", 1, "0.788405103436236"},
		{run, "charge", 2, "0.682039892832870"},
		{run, "charge", 3, "0.148659019473201"},
		{run, "überweisung", 1, "0.696318005824342"},
		{run, "charge", 1 << 40, "0.641484024066661"},
	} {
		if got := fmt.Sprintf("%.15f", judge.Random(test.run, test.step, test.attempt)); got != test.want {
			t.Errorf("Random(%v, %q, %d) = %s, want %s", test.run, test.step, test.attempt, got, test.want)
		}
	}
}

func TestRandomIsUniform(t *testing.T) {
	const draws, buckets = 100_000, 20
	var counts [buckets]int
	var sum, product, previous float64
	for i := range draws {
		u := judge.Random([16]byte{byte(i), byte(i >> 8), 7: byte(i >> 16)}, "charge", i%7+1)
		if u < 0 || u >= 1 {
			t.Fatalf("draw %d is %v", i, u)
		}
		counts[int(u*buckets)]++
		sum += u
		product += (u - 0.5) * (previous - 0.5)
		previous = u
	}
	if mean := sum / draws; math.Abs(mean-0.5) > 0.005 {
		t.Errorf("mean %v", mean)
	}
	if correlation := 12 * product / draws; math.Abs(correlation) > 0.02 {
		t.Errorf("neighbours correlate: %v", correlation)
	}
	for i, n := range counts {
		if math.Abs(float64(n)-draws/buckets) > 350 { // five standard deviations
			t.Errorf("bucket %d holds %d of %d", i, n, draws)
		}
	}
}
