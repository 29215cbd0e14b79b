package pawl

import (
	"maps"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
)

// Labels gives the run labels: keys with values that it can be searched by, with [client.Query].Labels. Several of
// these options add up. The runs that follow it in its chain have them too; its children do not. A run has at most 50
// labels, with keys of up to 100 and values of up to 500 bytes.
func Labels(labels map[string]string) StartOption {
	return func(r *client.StartRequest) {
		all := maps.Clone(r.Labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, labels)
		r.Labels = all
	}
}

// SetLabel changes a label of the run, from the body; an empty value removes it. The run keeps the label as it was set
// last: a body that is called again does not set it back. See [Labels].
func SetLabel(ctx Context, key, value string) error {
	b := ctx.of()
	change, err := core.MakeLabels(map[string]string{key: value})
	if err != nil {
		return b.invalid(err, "set label")
	}
	return b.Label(key, change)
}

// labelsOf checks the labels of a request.
func labelsOf(all map[string]string, what string) (core.Labels, error) {
	labels, err := core.MakeLabels(all)
	return labels, invalid(err, "%s", what)
}
