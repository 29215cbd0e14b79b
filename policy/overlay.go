package policy

// Overlay combines a general policy with a more specific one, over. The retry policy and each limit of over
// replace those of p independently, and each as a whole: a step's startToClose also drops the onExpire that its
// service had set. A removed limit removes that of p. `retry: none` is a policy of one attempt and replaces p's
// like any other.
//
// Apply overlays from the general to the specific. The result has no removed limits, so a result that is used as over
// removes nothing. The limits and the retry policy are shared with the arguments, not copied.
func (p Policy) Overlay(over Policy) Policy {
	result := p
	if over.Retry != nil {
		result.Retry = over.Retry
	}
	for _, kind := range StepLimits {
		if *over.field(kind) != nil {
			result.Set(kind, over.Get(kind))
		} else {
			result.Set(kind, p.Get(kind))
		}
	}
	return result
}
