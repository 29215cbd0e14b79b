package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/decode"
)

// parsePreset reads a retry policy as a short text:
//
//	fixed(3, 1s)
//	fixed(3, 1s, jitter=0.5)
//	exponential(5, 1s)
//	exponential(unlimited, 1s, max=30s, factor=3, jitter=0.25)
//	exponential(5, 1s, max=30s, jitter=decorrelated)
//	none
//
// The first number is attempts in all, the first one included; none is one attempt. A preset retries errors and
// timeouts, like every policy that does not list kinds.
func parsePreset(text string) (*Retry, error) {
	name, args, err := splitPreset(text)
	if err != nil {
		return nil, err
	}
	r := DefaultRetry()
	var options []string
	switch name {
	case none:
		return r, nil
	case "fixed":
		r.BackoffCoefficient = 1
		options = []string{"jitter"}
	case "exponential":
		options = []string{"max", "factor", "jitter"}
	default:
		return nil, presetError(text, "%s", decode.Unknown("preset", name, []string{"fixed", "exponential", none}))
	}
	if len(args) < 2 {
		return nil, presetError(text, "%s needs the attempts in all and a delay, as in %s(3, 1s)", name, name)
	}
	// A preset is a short form of a mapping, so the same decoder reads and checks its arguments.
	values := map[string]any{"maxAttempts": argument(args[0]), "initialInterval": args[1]}
	if name == "fixed" {
		values["backoffCoefficient"] = 1
	}
	for _, arg := range args[2:] {
		option, value, ok := strings.Cut(arg, "=")
		option, value = strings.TrimSpace(option), strings.TrimSpace(value)
		if !ok {
			return nil, presetError(text, "unexpected %q; options are written as name=value", arg)
		}
		if !slices.Contains(options, option) {
			return nil, presetError(text, "%s", decode.Unknown("option", option, options))
		}
		field := presetFields[option]
		if _, ok := values[field]; ok {
			return nil, presetError(text, "%s is given twice", option)
		}
		values[field] = argument(value)
	}
	if r, err = decodeRetry(values); err != nil {
		return nil, presetError(text, "%s", err)
	}
	return r, nil
}

var presetFields = map[string]string{"max": "maxInterval", "factor": "backoffCoefficient", "jitter": "jitter"}

// splitPreset splits "name(a, b)" into its parts; args is nil for a lone name.
func splitPreset(text string) (name string, args []string, err error) {
	name, rest, call := strings.Cut(strings.TrimSpace(text), "(")
	name = strings.TrimSpace(name)
	if !call {
		if name != none {
			return "", nil, presetError(text, "not a retry policy; write fixed(3, 1s), exponential(3, 1s) or none")
		}
		return name, nil, nil
	}
	inner, after, closed := strings.Cut(rest, ")")
	switch {
	case !closed:
		return "", nil, presetError(text, "missing ); within { } a preset with a comma needs quotes")
	case after != "":
		return "", nil, presetError(text, "unexpected %q after )", after)
	case name == none:
		return "", nil, presetError(text, "none takes no arguments")
	}
	for arg := range strings.SplitSeq(inner, ",") {
		args = append(args, strings.TrimSpace(arg))
	}
	return name, args, nil
}

// argument turns a number into an int or a float64, as a YAML decoder would.
func argument(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return text
}

func presetError(text, format string, args ...any) error {
	return &decode.Error{Msg: fmt.Sprintf("%q: %s", text, fmt.Sprintf(format, args...))}
}

// String writes the policy for people: as a preset, followed by the settings that a preset cannot hold. parsePreset
// reads the preset part back.
func (r *Retry) String() string {
	if r == nil {
		return none
	}
	text := r.preset()
	if r.MaxAttempts == 1 || r.MaxAttempts == 0 {
		return text
	}
	switch {
	case r.When != "":
		text += " when " + strconv.Quote(r.When)
	case r.On != nil && !slices.Equal(r.On, defaultOn):
		names := make([]string, len(r.On))
		for i, kind := range r.On {
			names[i] = kind.String()
		}
		text += " on [" + strings.Join(names, " ") + "]"
	}
	if len(r.NonRetryable) > 0 {
		text += " never [" + strings.Join(r.NonRetryable, " ") + "]"
	}
	return text
}

func (r *Retry) preset() string {
	if r.MaxAttempts == 1 {
		return none
	}
	attempts := "unlimited"
	if r.MaxAttempts >= 0 {
		attempts = strconv.Itoa(r.MaxAttempts)
	}
	args := []string{attempts, duration.Format(max(r.InitialInterval, 0))}
	coefficient := max(r.BackoffCoefficient, 1)
	decorrelated := r.JitterKind == JitterDecorrelated
	name := "exponential"
	if coefficient == 1 && r.MaxInterval < time.Millisecond && !decorrelated {
		name = "fixed"
	} else {
		if r.MaxInterval >= time.Millisecond {
			args = append(args, "max="+duration.Format(r.MaxInterval))
		}
		if coefficient != 2 {
			args = append(args, "factor="+strconv.FormatFloat(coefficient, 'g', -1, 64))
		}
	}
	if decorrelated {
		args = append(args, "jitter="+JitterDecorrelated.String())
	} else if r.Jitter > 0 {
		args = append(args, "jitter="+strconv.FormatFloat(r.Jitter, 'g', -1, 64))
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}
