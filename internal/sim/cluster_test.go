package sim

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestMachinesShareThePartitions checks that clusters move partitions in all the ways there are: they are given back,
// and machines stop when their leases have ended, or stand still until another one has taken over.
func TestMachinesShareThePartitions(t *testing.T) {
	nightly.OnlyPlain(t, "it counts over many universes; TestSeeds has clusters in three of ten")
	var all Report
	for seed := uint64(1); seed <= 150; seed++ {
		r, err := Run(seed, Options{Cluster: true, Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		all.Owners += r.Owners
		all.Given += r.Given
		all.Stopped += r.Stopped
		all.Paused += r.Paused
	}
	if all.Given < 300 || all.Stopped < 150 || all.Paused < 50 {
		t.Errorf("%d owners, %d gave their partition back, %d stopped by their own clock, %d stood still", all.Owners,
			all.Given, all.Stopped, all.Paused)
	}
}
