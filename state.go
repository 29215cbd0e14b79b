package pawl

import "context"

// SetState publishes what the run is at: any value, for people and programs that look at the run; see [State]. The last
// one counts. It is recorded with what the body does next, and costs no commit of its own. A body that is called again
// does not publish a value twice.
//
// Each run of a chain begins without a state.
func SetState(ctx Context, v any) error {
	b := ctx.of()
	value, err := b.encode(b.host.codec, "the state", b.at(kindState, ""), v)
	if err != nil {
		return b.invalid(err, "set state")
	}
	return b.Publish(value)
}

// State returns what a run published last; see [SetState]. The run is named by its run id or its workflow id, and may
// have ended. If it has published nothing, State returns the zero value. Errors: ErrNotFound, and what the codec says.
func State[T any](ctx context.Context, c Client, id string) (T, error) {
	d, err := c.DescribeRun(ctx, id)
	if err != nil {
		var zero T
		return zero, err
	}
	return decode[T](ctx, c.Codec(), "the state", placeOf(kindState, d.ID, d.Workflow, ""), d.State)
}
