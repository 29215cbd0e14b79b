package artifact

// Sweep is the test of a bucket that removes, for the tests of other buckets.
var Sweep = sweep
