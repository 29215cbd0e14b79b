package judge

// Random returns a number in [0,1) that spreads the delay after an attempt. It depends only on the run, the step and
// the attempt. A preview, a replay and every node therefore get the same number.
//
// The function must never change: FNV-1a over the run's bytes, the step's bytes and the attempt's number as eight
// bytes, lowest first; then the finaliser of SplitMix64. The upper 53 bits of the result are the fraction.
func Random(run [16]byte, step string, attempt int) float64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	hash := uint64(offset)
	for _, b := range run {
		hash = (hash ^ uint64(b)) * prime
	}
	for i := range len(step) {
		hash = (hash ^ uint64(step[i])) * prime
	}
	for n, i := uint64(attempt), 0; i < 8; i++ {
		hash = (hash ^ (n & 0xff)) * prime
		n >>= 8
	}
	hash ^= hash >> 30
	hash *= 0xbf58476d1ce4e5b9
	hash ^= hash >> 27
	hash *= 0x94d049bb133111eb
	hash ^= hash >> 31
	return float64(hash>>11) / (1 << 53)
}
