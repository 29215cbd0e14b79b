package visibility

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// value is a text, or a number: an instant and a duration in nanoseconds, a status by its number, a truth as 0 or 1.
type value struct {
	text   string
	number float64
	exact  int64 // the number, where it is a whole one
}

func whole(n int64) value { return value{number: float64(n), exact: n} }

// compare compares two values of a type.
func (v value) compare(other value) int {
	return cmp.Or(cmp.Compare(v.text, other.text), cmp.Compare(v.exact, other.exact),
		cmp.Compare(v.number, other.number))
}

// readValue reads a value of a query.
func readValue(field string, kind enumspb.IndexedValueType, w token) (value, error) {
	n, notWhole := strconv.ParseInt(w.text, 10, 64)
	x, notNumber := strconv.ParseFloat(w.text, 64)
	truth, notTruth := strconv.ParseBool(w.text)
	wrong := func() error {
		return fmt.Errorf("invalid query: '%s' is not a value for '%s': write texts in quotes", w.text, field)
	}
	switch kind {
	case aTime:
		if notWhole == nil {
			return whole(n), nil
		}
		at, err := time.Parse(time.RFC3339Nano, w.text)
		if err != nil || !w.quoted {
			return value{}, fmt.Errorf("invalid query: '%s' is not an instant such as 2026-05-17T10:00:00Z", w.text)
		}
		return whole(at.UnixNano()), nil
	case aDuration:
		if notWhole == nil {
			return whole(n), nil
		}
		d, err := time.ParseDuration(w.text)
		if err != nil || !w.quoted {
			return value{}, fmt.Errorf("invalid query: '%s' is not a duration such as '1h30m'", w.text)
		}
		return whole(int64(d)), nil
	case aStatus:
		status, err := enumspb.WorkflowExecutionStatus(n), notWhole
		if err != nil && w.quoted {
			status, err = enumspb.WorkflowExecutionStatusFromString(w.text)
		}
		if _, known := enumspb.WorkflowExecutionStatus_name[int32(status)]; err != nil || !known || status == 0 {
			return value{}, fmt.Errorf("invalid query: invalid ExecutionStatus value '%s'", w.text)
		}
		return whole(int64(status)), nil
	case anInt:
		if notWhole != nil {
			return value{}, wrong()
		}
		return whole(n), nil
	case aDouble:
		if notNumber != nil {
			return value{}, wrong()
		}
		return value{number: x}, nil
	case aBool:
		if notTruth != nil {
			return value{}, wrong()
		}
		return ofTruth(truth), nil
	default:
		if !w.quoted && notNumber != nil {
			return value{}, wrong()
		}
		return value{text: w.text}, nil
	}
}

func ofTruth(is bool) value {
	if is {
		return whole(1)
	}
	return whole(0)
}

// stored reads the value of an attribute, as its workflow has given it: none if it is of another type.
func stored(kind enumspb.IndexedValueType, data []byte) []value {
	switch kind {
	case aKeywordList:
		var texts []string
		if json.Unmarshal(data, &texts) != nil {
			return stored(aKeyword, data)
		}
		var out []value
		for _, text := range texts {
			out = append(out, value{text: text})
		}
		return out
	case anInt:
		var n int64
		if json.Unmarshal(data, &n) == nil {
			return []value{whole(n)}
		}
	case aDouble:
		var x float64
		if json.Unmarshal(data, &x) == nil {
			return []value{{number: x}}
		}
	case aBool:
		var is bool
		if json.Unmarshal(data, &is) == nil {
			return []value{ofTruth(is)}
		}
	case aTime:
		var at time.Time
		if json.Unmarshal(data, &at) == nil {
			return []value{whole(at.UnixNano())}
		}
	default:
		var text string
		if json.Unmarshal(data, &text) == nil {
			return []value{{text: text}}
		}
	}
	return nil
}
