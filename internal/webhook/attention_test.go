package webhook

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestAttentionIsToldOnce checks that webhooks are told of each concern when it comes and when it goes, and not when it
// changes.
func TestAttentionIsToldOnce(t *testing.T) {
	concern := func(key, id string, runs int) api.Concern {
		return api.Concern{Key: key, ID: id, Cause: api.CauseFailed, Name: "shop", Runs: runs}
	}
	var open sentAttention
	at := api.Time(100)
	look := func(more bool, all ...api.Concern) string {
		after, notices := changesOf(open, api.Attention{Concerns: all, More: more}, at)
		open, at = after, at+100
		var out []string
		for _, n := range notices {
			out = append(out, n.ID+" "+n.Workflow)
		}
		return strings.Join(out, ", ")
	}
	for i, c := range []struct {
		more bool
		all  []api.Concern
		want string
	}{
		{false, nil, ""},
		{false, []api.Concern{concern("a", "a1", 1)}, "a_attention.raised shop"},
		{false, []api.Concern{concern("a", "a2", 7), concern("a", "a3", 7)}, ""},
		{false, []api.Concern{concern("b", "b1", 0), concern("a", "a2", 7)}, "b_attention.raised "},
		{true, []api.Concern{concern("b", "b1", 0)}, ""}, // not all was looked at
		{false, []api.Concern{concern("b", "b1", 0)}, "a_attention.cleared shop"},
		{false, []api.Concern{concern("b", "b2", 0), concern("a", "a4", 1)}, "a_attention.raised shop"},
		{false, nil, "b_attention.cleared , a_attention.cleared shop"},
	} {
		if got := look(c.more, c.all...); got != c.want {
			t.Errorf("look %d tells %q, want %q", i, got, c.want)
		}
	}
	look(false, concern("a", "a1", 1))
	if open.Concerns[0].Since != 900 || open.Concerns[0].ID != "a1" {
		t.Errorf("kept is %+v", open.Concerns)
	}
	look(false, concern("a", "a2", 2))
	if open.Concerns[0].Since != 900 || open.Concerns[0].ID != "a2" || open.Concerns[0].Runs != 2 {
		t.Errorf("kept is %+v", open.Concerns)
	}
}
