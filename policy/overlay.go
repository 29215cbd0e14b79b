package policy

// Overlay lays a more specific policy over a more general one. Retry and each limit replace what is below them
// independently, and each as a whole: a step's startToClose also drops the onExpire that its service had set. A
// removed limit takes the one below away; `retry: none` is a policy of one attempt and replaces like any other.
//
// Lay from the general to the specific: the result holds no removed limits, so it no longer takes anything away from
// what it would be laid over. The limits and the retry policy are shared with the arguments, not copied.
func Overlay(base, over Policy) Policy {
	result := base
	if over.Retry != nil {
		result.Retry = over.Retry
	}
	for _, kind := range StepLimits {
		if *over.place(kind) != nil {
			result.Set(kind, over.Get(kind))
		} else {
			result.Set(kind, base.Get(kind))
		}
	}
	return result
}
